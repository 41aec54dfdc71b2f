import os

os.environ["DIFFUSERS_DISABLE_REMOTE_CODE"] = "true"  # read when diffusers is imported
