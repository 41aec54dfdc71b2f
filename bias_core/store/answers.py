"""What models said of pictures, in words, and what that was paid for once: captions and answers."""

from collections.abc import Mapping, Sequence

from bias_core.store.sqlite_file import CheckedRows

Question = tuple[str, str]  # id of a picture, and the question; "" asks for a caption


class AnswerCache(CheckedRows):
    """Answers by question and reader; one that does not fit its checksum is asked for anew."""

    _what, _table, _kind = "answer cache", "answers", "TEXT"
    _columns = ("image_id", "question", "reader", "answer")
    _remedy = "{n} kept answer(s) did not fit their checksum; they are asked for anew"

    def find(self, reader: str, questions: Sequence[Question]) -> dict[Question, str]:
        """The answers that are known."""
        return {
            (image, question): str(answer) for (image, question), answer in self.find_rows(reader, questions).items()
        }

    def keep(self, reader: str, answers: Mapping[Question, str]) -> None:
        """Write answers down; a new one takes the place of an old one."""
        self.keep_rows(reader, answers)

    def _checked(self, key: tuple[str, ...], reader: str, value: object) -> bytes:
        return "\0".join((*key, reader, str(value))).encode()
