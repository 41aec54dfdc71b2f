"""Whatever a language model writes, the usable attributes are found and the rest is left out."""

import json
import time

import pytest
from hypothesis import given, settings, strategies as st

from bias_core.errors import InvalidInput
from bias_core.study.attributes import MAX_CHARACTERS, candidate_prompt, parse_candidates, propose_candidates
from tests.every import every

TURBAN = ("Turban", "The person is wearing a turban.", "The person is not wearing a turban.")
BEARD = ("Full beard", "The person has a full beard.", "The person has no beard.")
BOTH = [TURBAN, BEARD]

# As printed in the appendix of OASIS.
PAPER = """Certainly! Based on your prompt, "*A photo of a Tunisian person*," here is a list of potential \
attributes to look for in the generated images.

- 1. Wearing a Traditional Chechia (Hat)
  - Positive: "The person is wearing a traditional Tunisian chechia."
  - Negative: "The person is not wearing any headwear."
- 2. Traditional Clothing
  - Positive: "The person is wearing traditional Tunisian clothing."
  - Negative: "The person is wearing modern Western clothing."
"""

LAYOUTS = {
    "the form asked for": "Turban | {1} | {2}\nFull beard | {4} | {5}",
    "numbered": "1. Turban | {1} | {2}\n2) Full beard | {4} | {5}",
    "Markdown table": "| # | Attribute | Positive sentence | Negative sentence |\n|---|:--|---|---|\n"
    "| 1 | **Turban** | {1} | {2} |\n| 2 | Full beard | {4} | {5} |",
    "tabs": "Turban\t{1}\t{2}\nFull beard\t{4}\t{5}",
    "semicolons": "* Turban; {1}; {2}\n* Full beard; {4}; {5}",
    "labels below": '1. **Turban**\n   - Positive: "{1}"\n   - Negative: "{2}"\n'
    '2. **Full beard**:\n   - Positive: "{4}"\n   - Negative: "{5}"',
    "labels in bold": "### Turban\n**Positive sentence:** {1}\n**Negative sentence:** {2}\n\n"
    "### Full beard\n**Positive sentence:** {4}\n**Negative sentence:** {5}",
    "labels in line": "- Turban: Positive: “{1}” Negative: “{2}”\n- Full beard (Positive: {4}, Negative: {5})",
    "named": "Attribute 1: Turban\nPresence: {1}\nAbsence: {2}\nAttribute 2: Full beard\nPresence: {4}\nAbsence: {5}",
    "bare sentences": "1. Turban\n- {1}\n- {2}\n2. Full beard\n- {4}\n- {5}",
    "nested bullets": "* Turban\n    + {1}\n    - {2}\n* Full beard\n    + {4}\n    - {5}",
    "Windows lines": "Turban | {1} | {2}\r\n\r\nFull beard | {4} | {5}\r\n",
    "single quotes": "[{{'name': 'Turban', 'positive': '{1}', 'negative': '{2}'}},\n"
    "{{'name': 'Full beard', 'positive': '{4}', 'negative': '{5}'}}]",
    "lists": '[["Turban", "{1}", "{2}"], ["Full beard", "{4}", "{5}"]]',
}


def triples(answer):
    return [(a.name, a.positive, a.negative) for a in parse_candidates(answer)]


@every(LAYOUTS)
def test_every_usual_layout_is_understood(layout):
    assert triples(LAYOUTS[layout].format(*TURBAN, *BEARD)) == BOTH


@every([None, 1])
def test_json_is_understood(indent):
    keys = ("attribute", "positive_sentence", "negative_sentence")
    value = [dict(zip(keys, triple, strict=True)) for triple in BOTH]
    for whole in (value, {"attributes": value}):
        assert triples(f"```json\n{json.dumps(whole, indent=indent)}\n```") == BOTH


def test_the_papers_example_is_understood_and_its_small_talk_left_out():
    found = parse_candidates(PAPER)
    assert [a.name for a in found] == ["Wearing a Traditional Chechia (Hat)", "Traditional Clothing"]
    assert found[0].positive == "The person is wearing a traditional Tunisian chechia."
    assert found[1].negative == "The person is wearing modern Western clothing."


@pytest.mark.parametrize("answer", [
    "Turban | The person is wearing a turban.",
    "1. Turban\n   Positive: The person is wearing a turban.",
    "1. Turban\n   Negative: The person has no turban.",
    "Here you are:",
    '{"name": "Turban", "positive": "The person is wearing a turban."}',
    '{"name": "Turban", "positive": "The pers',
    "Turban | The person is wearing a turban. | The person is not wear",
    "Turban | A turban. | a turban.",
    "x" * 81 + " | The person is x. | The person is not x.",
])  # fmt: skip
def test_what_cannot_be_used_is_left_out(answer):
    assert parse_candidates(answer) == []


def test_duplicates_are_kept_once():
    answer = "\n".join(["Turban | A turban. | No turban."] * 2 + ["TURBAN | A. | B.", "Hat | A turban. | No turban."])
    assert [a.name for a in parse_candidates(answer)] == ["Turban"]


def test_one_bad_line_costs_only_itself():
    answer = f"{' | '.join(TURBAN)}\nbeard | The person has\n{' | '.join(BEARD)}"
    assert triples(answer) == BOTH


def test_sentences_without_a_name_are_named_by_themselves():
    found = parse_candidates("Positive: The person smiles.\nNegative: The person frowns.")
    assert [(a.name, a.negative) for a in found] == [("The person smiles", "The person frowns.")]


def test_a_wrapped_sentence_does_not_become_the_other_one():
    answer = "1. Turban\n  Positive: The person is wearing\n    a turban.\n  Negative: The person is not."
    found = parse_candidates(answer)
    assert [one.negative for one in found] == ["The person is not."]


def test_other_scripts_are_kept():
    assert triples("帽子 | 这个人戴着帽子。 | 这个人没有戴帽子。")[0][0] == "帽子"
    assert triples("टोपी | व्यक्ति ने टोपी पहनी है। | व्यक्ति ने टोपी नहीं पहनी है।")[0][0] == "टोपी"


def test_an_endless_answer_is_cut():
    answer = " | ".join(TURBAN) + "\n" + "la " * MAX_CHARACTERS + "\n" + " | ".join(BEARD)
    assert triples(answer) == [TURBAN]


PIECES = st.sampled_from(
    ["{", "}", "[", "]", "|", ";", "\t", "\n", "  ", "- ", "1. ", "#", "```json", '"', "'", ":", "**", "\x00",
     "\ud800", "Positive:", "negative:", "name", "Turban", "The person is x.", "&a", "*a", "? ", "!!int 1",
     "2001-99-99", "<<: "]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)))
def test_any_text_is_read_without_an_error(answer):
    for attribute in parse_candidates(answer):
        assert attribute.name
        assert attribute.positive
        assert attribute.negative
        assert attribute.positive.casefold() != attribute.negative.casefold()
        assert attribute.reference is None


@every(["{", "[", "{'a':", "a ", " ", "positive", "positive:", "- ", "1.", "*", "|", '"', "(x"])
def test_reading_stays_quick_on_hostile_text(piece):
    started = time.process_time()
    parse_candidates(piece * (MAX_CHARACTERS // len(piece)))
    assert time.process_time() - started < 3


class Echo:
    """A language model that answers with what it was given, and remembers what it was asked."""

    def __init__(self, answer):
        self.answer = answer

    def propose(self, prefixes, n):
        return [[] for _ in prefixes]

    def complete(self, prompt, max_new_tokens):
        self.asked = prompt
        return self.answer


def test_the_model_is_asked_for_what_the_paper_asks():
    model = Echo(" | ".join(TURBAN))
    found = propose_candidates("  an Iranian\n person ", model, n=7)
    assert [a.name for a in found] == ["Turban"]
    for word in ("text-to-image", '"an Iranian person"', "at least 7", "CLIP", "presence", "absence"):
        assert word in model.asked


def test_the_instructions_own_form_and_example_can_be_read():
    example = candidate_prompt("doctor").splitlines()
    assert triples(example[-1])[0][0] == "glasses"
    assert triples(example[-3]) == []

    assert '"{n} {concept}"' in candidate_prompt("{n} {concept}")  # braces in a concept are only text


def test_a_blank_concept_and_no_attribute_cannot_be_asked_for():
    for blank in ("", " \n"):
        with pytest.raises(InvalidInput, match="blank"):
            candidate_prompt(blank)
    with pytest.raises(InvalidInput, match="at least 1"):
        candidate_prompt("doctor", n=0)
