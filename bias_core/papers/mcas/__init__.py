"""Internal bias: MCAS, diffusion bias and bias amplification."""
