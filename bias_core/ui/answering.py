"""The page as a server: whatever is sent to it is answered with a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

if TYPE_CHECKING:
    from gradio.block_function import BlockFunction
    from gradio.state_holder import SessionState

_UNREADABLE = (
    "What was sent cannot be read as the inputs of this: send as many values as it takes, each of the type "
    "that /gradio_api/info gives, and a file only after its upload"
)


class AnsweringBlocks(gr.Blocks):
    """Blocks that say so where inputs cannot even be read; Gradio alone answers with an empty error."""

    async def preprocess_data(
        self,
        block_fn: BlockFunction,
        inputs: list[Any],
        state: SessionState | None,
        explicit_call: bool = False,
    ) -> list[Any]:
        """As Gradio does it, with an error that has a message."""
        try:
            return await super().preprocess_data(block_fn, inputs, state, explicit_call)
        except gr.Error:
            raise
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, OSError) as error:
            raise gr.Error(_UNREADABLE, print_exception=False) from error
