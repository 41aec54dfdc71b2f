"""Foreign text costs every reader time in proportion to its length: four times the text, about four times the work."""

import io
import json
import math
import time
from contextlib import suppress

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bias_core.errors import BiasCoreError
from bias_core.measures.objects import gender_words
from bias_core.models.endpoints import error_text, is_unpaid, read_message, without_secrets
from bias_core.models.language_models import open_thought
from bias_core.papers.mcas.report import worded
from bias_core.papers.oasis.study_nationalities import _parse_users
from bias_core.papers.oasis.study_stop import _picked
from bias_core.prompts import WORD_SLOT, fix_articles
from bias_core.run.attribute_scores import question_about
from bias_core.run.image_rows import foreign_words
from bias_core.run.suggestions import parse_phrases
from bias_core.store.comfy_graph import facts_of_graph
from bias_core.store.found_pictures import key
from bias_core.store.images import read_source
from bias_core.store.picture_files import check_name
from bias_core.store.picture_metadata import (
    facts_of_midjourney,
    facts_of_part,
    facts_of_sidecar,
    facts_of_text,
    finished_stem,
    is_sheet_name,
    read_metadata,
)
from bias_core.store.tables import read_table
from bias_core.study.attributes import parse_candidates
from bias_core.study.label_tasks import about_rater_from_lines, find_people
from bias_core.study.types import parse_arms
from bias_core.ui.templates import without_variables
from bias_core.values import MAX_TEXT, normal_form
from bias_core.world.grammar import parse

CUT = 65_536  # characters of a text that is read
_QUICK, _MOST, _GROWTH = 0.1, 2.0, 8.0  # seconds that prove nothing, and most for a whole text; of four times the text
_UNREADABLE = (BiasCoreError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


def picture(text, keyword):
    """A picture with a text, before it the other texts of the same program."""
    texts = PngInfo()
    for other in {"Comment": ("Source", "Description"), "Source": ("Comment", "Description")}.get(keyword, ()):
        texts.add_text(other, '{"sampler": "x"}')
    texts.add_text(keyword, text)
    buffer = io.BytesIO()
    Image.new("RGB", (1, 1)).save(buffer, "PNG", pnginfo=texts)
    return io.BytesIO(buffer.getvalue())


def table(text):
    return list(read_table("own.csv", text.encode("utf-8", "replace"), needs=[["prompt"]]))


READERS = {
    **{f"PNG {name}": lambda text, name=name: read_metadata(picture(text, name))
       for name in ("parameters", "Dream", "Comment", "Source", "Description", "sd-metadata", "invokeai_metadata",
                    "prompt", "XML:com.adobe.xmp")},
    "XMP": lambda text: read_metadata(picture(f"<exif:UserComment>{text}", "XML:com.adobe.xmp")),
    "A1111": lambda text: facts_of_text(f"a doctor\nSteps: 20, Sampler: x, CFG scale: 7, Seed: 1, {text}"),
    "A1111 prompt": lambda text: facts_of_text(f"{text}\nSteps: 20, Sampler: x, CFG scale: 7, Seed: 1"),
    "Dream": lambda text: read_metadata(picture(f'"a doctor" -s 20 -S 3 -A x {text}', "Dream")),
    "sd-metadata": lambda text: read_metadata(picture(json.dumps(
        {"image": {"sampler": "x", "prompt": [{"prompt": text}]}}), "sd-metadata")),
    "NovelAI": lambda text: read_metadata(picture(json.dumps({"sampler": "x", "uc": text}), "Comment")),
    "SwarmUI": lambda text: facts_of_text(json.dumps({"sui_image_params": {"prompt": text, "Refiner prompt": text}})),
    "graph": facts_of_graph,
    "graph's text": lambda text: facts_of_graph(json.dumps({
        "1": {"class_type": "CLIPTextEncode Replace", "inputs": {"string": text, "find": "a", "replace": "b"}},
        "2": {"class_type": f"KSampler {text}", "inputs": {"positive": ["1", 0], "seed": 1, text: ["1", 0]}}})),
    "Midjourney": facts_of_midjourney, "text": facts_of_text, "source": read_source,
    "sidecar": lambda text: facts_of_sidecar(text.encode("utf-8", "replace")),
    "part": lambda text: facts_of_part(text.encode("utf-8", "replace")),
    "table": table, "table's cell": lambda text: table("file_name,prompt\n1.png," + text),
    "table's head": lambda text: table(text + "\n1"), "JSON lines": lambda text: table('{"prompt": "' + text),
    "name": lambda text: (check_name(text), is_sheet_name(text), finished_stem(text)), "key": key,
}  # fmt: skip
READERS_OF_PROMPTS = {  # which are 10,000 characters at most
    "people": find_people, "people of a photo": lambda text: find_people(f"a photo of a {text}"), "grammar": parse,
    "foreign words": foreign_words, "articles": fix_articles, "slots": WORD_SLOT.findall, "phrases": parse_phrases,
    "words": lambda text: gender_words([text]), "pole": lambda text: worded(text, "female"), "question": question_about,
    "NFC": lambda text: normal_form("NFC", text),
    "answer": lambda text: read_message({"content": text}), "thought": open_thought, "candidates": parse_candidates,
    "error": lambda text: error_text(text.encode("utf-8", "replace")),
    "unpaid": lambda text: is_unpaid(429, "", text[:10_000]),
    "secret": lambda text: without_secrets(text, "sk-12345678"), "about": about_rater_from_lines,
    "users": _parse_users, "cluster": _picked, "arms": lambda text: parse_arms([text]), "message": without_variables,
}  # fmt: skip
UNITS = [
    *" \t-_,:;\"'\\([{<|=0a\n\r.#", "1-", "1 ", "a ", "a:", '"\\"', ':"', "((", "[[", '{"a":', "[],", "{},", '"",',
    "<a",
    "--a ", "Steps: 1, ", "Negative prompt:", "\nNegative prompt: ", "\nSteps: ", "Hashes:{", "Sampler: x, ",
    'a: "\\"', "Job ID:", '"a" -s 3 ', " -S  ", "<segment:", "<lora:", "__a", "{a|", "http://a.b ", "-- --v 1 ", "a,",
    "one a on the left and ", "one a on the left and one b on the right ", "a photo of a ", "of a ", '","', "sep=;",
    "<think>", "</think>", "<details reasoning ", "<|channel|>final", "<|message|>", "<think>a</think>", "(1)", "grid-",
    "assistantfinal", "insufficient_", "a_", "BIAS_A (", "(BIAS_A", "present (", "positive:", " = 1", "a= ", "{a=b}",
    "\u0301\u0323", "\uff9e\u0301", "é", "\U0001f600", "\x00", "\ud800", "cv.iptc.org/newscodes/digitalsourcetype/",
    "a: b\n", "Prompt: a\n", "before-", "-before-a", "12345678-1234-1234-1234-123456789012", "2026-11-22 ", "DALL·E ",
    "Default_", "<exif:UserComment> ", "<rdf:Alt> ",
]  # fmt: skip


def seconds(read, text):
    """Processor time of one reading."""
    start = time.process_time()
    with suppress(*_UNREADABLE):
        read(text)
    return time.process_time() - start


def fault(read, unit, longest):
    """Describe the growth of the time that a reader takes for a repeated unit of text; "" if it is linear.

    Too long a time counts only if it is so in each of five readings of the text, each compared with one of its quarter
    at the same moment: other work on the machine is as much as half of a time, for seconds on end.
    """
    quarter, before = "", 0.0
    for length in (longest // 64, longest // 16, longest // 4, longest - 600):
        for end in ("!",) if length > longest // 4 else ("", "!"):
            text = unit * (length // len(unit)) + end
            taken, least = seconds(read, text), before
            for _ in range(4):
                if taken <= max(_QUICK, min(_GROWTH * least, _MOST)):
                    break
                again = seconds(read, text), max(seconds(read, quarter), _QUICK / _GROWTH) if before else math.inf
                taken, least = min((taken, least or math.inf), again, key=lambda pair: (pair[0] / pair[1], pair[0]))
            if taken > max(_QUICK, min(_GROWTH * least, _MOST)):
                return f"{len(text):,} characters take {taken:.2f} s, a quarter of them {least:.2f} s"
        quarter, before = text, max(taken, _QUICK / _GROWTH)
    return ""


@pytest.mark.parametrize("reader", [*READERS, *READERS_OF_PROMPTS])
def test_four_times_the_text_takes_about_four_times_as_long(reader):
    read, longest = READERS.get(reader) or READERS_OF_PROMPTS[reader], CUT if reader in READERS else MAX_TEXT
    found = ((unit, fault(read, unit, longest)) for unit in UNITS)
    assert {unit: what for unit, what in found if what} == {}
