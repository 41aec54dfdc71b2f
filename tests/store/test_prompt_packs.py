"""Prompt packs are read from CSV, JSONL and data sets of a hub, and bad rows are named by their lines."""

from itertools import product

import pandas as pd
import pytest

from bias_core.errors import HubNotReached, InvalidInput
from bias_core.store.tables import read_pack
from bias_core.study.design import pack_design


def pack(tmp_path, text, name="pack.csv"):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_pack(str(tmp_path / name))[0]


def rows(prompts):
    return [(one.prompt, one.group, one.n, one.attributes, one.place) for one in prompts]


def test_comments_of_a_text_are_skipped_and_named_and_marks_of_lists_are_named(tmp_path):
    (tmp_path / "own.txt").write_text("# of care\n1. a nurse\n- a cook\n3 cooks\n#1 fan\n")
    prompts, notes = read_pack(str(tmp_path / "own.txt"))
    assert [one.prompt for one in prompts] == ["1. a nurse", "- a cook", "3 cooks", "#1 fan"]
    assert notes == "1 skipped as comments, such as # of care; 2 with the mark of a list, such as line 2: “1. a nurse”"


def test_a_table_of_any_common_form_is_read(tmp_path):
    expected = [
        ("a nurse, at work", "care", 8, ("man", "old"), "line 2"),
        ("ein Arzt im Krankenhaus", "", None, (), "line 3"),
    ]
    comma = (
        '\ufeff\ufeffprompt,group,n,attributes,ignored\n" a nurse,  at work ",care,8,man; old;,x\n'
        "ein Arzt im Krankenhaus,,,,\n"
    )
    assert rows(pack(tmp_path, comma)) == expected
    assert rows(pack(tmp_path, comma.replace(",group,n,attributes,ignored", ";Group;N;Attributes;x").replace(
        '",care,8,man; old;,x', '";care;8;"man; old";x').replace(",,,,", ";;;;"))) == expected  # fmt: skip
    for separator, end, encoding in product(
        ",;\t|", ("\n", "\r\n", "\r"), ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "cp1252")
    ):
        table = [
            ["\n Prompt", "N"],
            ['"a\u2008nurse; in, a | café"', "8"] if encoding != "cp1252" else ["é", "8"],
            ["a", ""],
        ]
        text = end.join([*map(separator.join, table), separator, ""]).replace("\n Prompt", f"{end} Prompt")
        first, second = pack(tmp_path, text.encode(encoding))
        assert (first.prompt[-1], first.n, first.place, second.place) == ("é", 8, "line 3", "line 4")
    assert [one.prompt for one in pack(tmp_path, "prompt\na nurse, smiling; old\n")] == ["a nurse, smiling; old"]
    assert pack(tmp_path, "sep=|\nprompt|n\na, b|3\n")[0].place == "line 3"
    lines = '{"text": "a nurse, at work", "group": "care", "n": 8.0, "attributes": ["man", "old"]}\n\n{"prompt": 7}\n'
    first, second = rows(pack(tmp_path, lines, "PACK.JSONL"))
    assert first == (*expected[0][:4], "line 1")
    assert second == ("7", "", None, (), "line 3")


def test_a_cell_over_several_lines_is_one_prompt_and_moves_the_lines_behind_it(tmp_path):
    first, second = pack(tmp_path, 'prompt\n"a photo\nof a nurse"\na doctor\n')
    assert (first.prompt, second.place) == ("a photo of a nurse", "line 4")


@pytest.mark.parametrize(("text", "message"), [
    ("prompt,n\na,0\nb,x\nc,2.5\n,4\na,3\n", r"2: n must be 1 to .*; line 3: .*'x'; line 4: .*whole.*; line 5: has no"),
    ("prompt\na nurse\na doctor\na  nurse\n", "line 4: repeats the prompt of line 2"),
    ("prompt\n" + "\n".join("" for _ in range(3)) + "\n", "0 prompts; a pack has 1 to 1,000"),
    ("prompt\n" + "\n".join(f"p{i}" for i in range(1001)), "1,001 prompts; a pack has 1 to 1,000"),
    ("words,n\na,3\n", "has no column prompt or text; its columns are 'words, n'"),
    ("promt,n\na,3\n", "has no column prompt or text; the nearest is 'promt'; its columns are 'promt, n'"),
    ("prompt,atributes\na,man\n", "'atributes', which is unknown: do you mean attributes?"),
    ("prompt,n,Prompt\na,3,b\n", "has the column prompt twice"),
    ("", "has no column prompt or text; it is empty"),
    ("prompt,n\na nurse, smiling,3\nb\nc,3\n", r"2: has more cells .* '3' .* “,” in quot.*3: .*1 of 2 .*without n$"),
    (",prompt,,n\n0,a,,3\n1,b,c,3\n", "line 3: has more cells than columns with a name: 'c' has none"),
    ('prompt,n\na,3\n"b,3\nc,3\n', "line 3: check its quotation marks"),
    (f"prompt\n{'x' * 2001}\n", "line 2: prompt has 2,001 characters; at most 2,000"),
    ("prompt\na\x07b\n", r"line 2: prompt holds U\+0007"),
    (b"prompt\n\xff\x81\n", "line 2 is not UTF-8"),
    ("prompt\na café\n".encode() + b"caf\xe9\n", "line 3 is not UTF-8"),
    (b"PK\x03\x04\0\0", "is not a text; save a spreadsheet as CSV"),
], ids=["n", "twice", "none", "many", "no column", "nearest", "further", "column twice",
        "empty", "ragged", "nameless", "quotes", "long", "control", "encoding", "damaged", "spreadsheet"])  # fmt: skip
def test_what_cannot_be_used_is_named_by_its_line(tmp_path, text, message):
    with pytest.raises(InvalidInput, match=message):
        pack(tmp_path, text)


def test_of_many_bad_rows_the_first_are_named_and_the_others_counted(tmp_path):
    with pytest.raises(InvalidInput, match=r"line 1: is not an object such as .*line 5: .*; and 2 more$"):
        pack(tmp_path, '[1]\n{\n3\nnull\n"a"\n\n[]\n{"prompt": "a", "prompt": "b"}\n', "bad.jsonl")
    with pytest.raises(InvalidInput, match=r"line 1: has no prompt; line 2: prompt must be a text"):
        pack(tmp_path, '{"n": 1}\n{"prompt": [1]}\n', "bad.jsonl")
    with pytest.raises(InvalidInput, match=r"nothing\.csv cannot be read: No such file"):
        read_pack(str(tmp_path / "nothing.csv"))


def test_a_data_set_of_a_hub_is_a_pack(tmp_path, monkeypatch):
    import huggingface_hub

    frame = pd.DataFrame({"prompt": ["a nurse", "a doctor"], "n": [3, None], "attributes": [["man"], None]})
    frame.to_parquet(tmp_path / "train.parquet")
    files, calls = ["README.md", "data/train-0.parquet", "test.csv"], []

    def download(repo, file, *, repo_type, revision):
        calls.append((repo, file, repo_type, revision))
        return str(tmp_path / "train.parquet")

    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", lambda *_, **__: files)
    monkeypatch.setattr(huggingface_hub.HfApi, "get_paths_info", lambda *_, **__: [])
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    found = rows(read_pack("hf://datasets/org/prompts@v1")[0])
    assert found == [("a nurse", "", 3, ("man",), "row 1"), ("a doctor", "", None, (), "row 2")]
    assert rows(read_pack("hf://datasets/org/prompts/data/train-0.parquet")[0]) == found
    named = ("org/prompts", "data/train-0.parquet", "dataset")
    assert calls == [(*named, "v1"), (*named, None)]
    files[1] = "other.jsonl"
    with pytest.raises(InvalidInput, match=r"has 2 files of a pack \(other.jsonl, test.csv\): add the file's name"):
        read_pack("hf://datasets/org/prompts")
    for name in ("hf://datasets/org", "hf://datasets/../x/y", "hf://datasets/org/prompts/README.md"):
        with pytest.raises(InvalidInput, match=r"hf://datasets|a pack is a file"):
            read_pack(name)


def test_a_large_file_of_a_hub_is_refused_before_it_is_downloaded(monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    large = huggingface_hub.hf_api.RepoFile(path="a.csv", size=5_000_001, oid="")
    monkeypatch.setattr(huggingface_hub.HfApi, "get_paths_info", lambda *_, **__: [large])
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **__: pytest.fail("it was downloaded"))
    with pytest.raises(InvalidInput, match="larger than 5 MB"):
        read_pack("hf://datasets/org/prompts/a.csv")


def test_a_hub_that_does_not_answer_is_said(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import huggingface_hub

    for kind in (ConnectionError, huggingface_hub.errors.HTTPError):  # of Python, and of the hub's own client

        def fail(*_, kind=kind, **__):
            raise kind("offline mode is on\nmore")

        monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", fail)
        with pytest.raises(HubNotReached, match=r"cannot be fetched: offline mode is on$"):
            read_pack("hf://datasets/org/prompts")


PLAIN = {
    "a line each": ("a.txt", "a photo of a cook\n\na photo of a nurse, at work\n"),
    "texts": ("a.json", '["a photo of a cook", "a photo of a nurse, at work"]'),
    "objects": ("a.json", '[{"prompt": "a photo of a cook"}, {"Prompt": "a photo of a nurse, at work"}]'),
    "JSON lines": ("a.json", '{"prompt": "a photo of a cook"}\n{"prompt": "a photo of a nurse, at work"}\n'),
    "a table": ("a.txt", 'prompt;group\na photo of a cook;x\n"a photo of a nurse, at work";y\n'),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_prompts_may_be_plain_lines_or_a_list(kind, tmp_path):
    name, content = PLAIN[kind]
    (tmp_path / name).write_text(content, encoding="utf-8")
    packed = read_pack(str(tmp_path / name))[0]
    assert [prompt.prompt for prompt in packed] == ["a photo of a cook", "a photo of a nurse, at work"]


@pytest.mark.parametrize("content", ["[", '[{"prompt": ""}]', "[[1]]", '[{"text": "x", "text": "y"}]', "[]"])
def test_a_list_that_cannot_be_prompts_is_refused(content, tmp_path):
    (tmp_path / "wrong.json").write_text(content)
    with pytest.raises(InvalidInput, match=r"wrong\.json"):
        read_pack(str(tmp_path / "wrong.json"))


def test_columns_that_are_not_used_are_named_with_the_file(tmp_path):
    (tmp_path / "own.csv").write_text("prompt,rating,empty,n\na nurse,3,,2\na doctor,4,,2\n")
    assert read_pack(str(tmp_path / "own.csv"))[1] == "columns not used: rating"
    design, note = pack_design(str(tmp_path / "own.csv")), "own.csv: columns not used: rating."
    assert (design.summary, design.notes) == (f"2 prompts, from own. {note}", [note])
    (tmp_path / "own.json").write_text('["a nurse", {"prompt": "a doctor", "note": "x"}]')
    assert read_pack(str(tmp_path / "own.json"))[1] == "columns not used: note"
