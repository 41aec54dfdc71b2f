"""Make ``assets/wordnet/lexicon.tsv.gz`` and ``irregular.tsv.gz`` from WordNet 3.0 (Debian: wordnet-base).

Run ``python scripts/make_wordnet_table.py [/usr/share/wordnet]``; ``--check`` compares lemmas with ``wn``.
"""

import gzip
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "assets" / "wordnet"
PARTS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
SYNSET_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}  # 5: satellite adjective
PERSON = 18  # number of the lexicographer file noun.person
ARTIFACT = 6
SEEN = {5, ARTIFACT, 8, 13, 17, PERSON, 20, 27}  # animals, things, bodies, food, natural objects, people, plants, stuff
THINGS = {5, ARTIFACT, 13, 17, 20, 27}  # those that are no part of somebody
NAMED = {5, 15, 18, 20}  # animals, places, people, plants: capitalised, they are taxa and proper names


def read_frequencies(source):
    """(lemma, part) -> how often its most frequent sense was tagged in WordNet's corpora; (lemma, file) likewise."""
    counts = defaultdict(int)
    for line in (source / "cntlist.rev").read_text().splitlines():
        key, _sense, count = line.split()
        lemma, rest = key.rsplit("%", 1)
        kind, file = rest.split(":")[:2]
        for entry in ((lemma, SYNSET_TYPES[kind]), *([(lemma, int(file))] if SYNSET_TYPES[kind] == "n" else [])):
            counts[entry] = max(counts[entry], int(count))
    return counts


def read_index(source, part):
    """Lemma -> offsets of its synsets, first sense first."""
    lines = (source / f"index.{part}").read_text().splitlines()
    rows = (line.split() for line in lines if not line.startswith(" "))
    return {row[0]: row[-int(row[2]) :] for row in rows}


def read_synsets(source):
    """Offset of a noun synset -> (number of its lexicographer file, words as they are written)."""
    synsets = {}
    for line in (source / "data.noun").read_text().splitlines():
        if not line.startswith(" "):
            row = line.split()
            synsets[row[0]] = int(row[1]), row[4 : 4 + 2 * int(row[3], 16) : 2]
    return synsets


def first_sense(lemma, offsets, synsets):
    """The first sense that is written in lower case, so that "china" is a plate and not a country."""
    for offset in offsets:
        if any(word == lemma for word in synsets[offset][1]):
            return offset
    return offsets[0]


def usable(lemma, wanted):
    """Words that the tokeniser can find: single ones, and the compounds that are kept together."""
    return lemma in wanted or (all(p.isalnum() for p in lemma.split("-")) and not lemma[0].isdigit())


def noun_names(nouns, synsets, frequencies, words):
    """Noun -> the name that its synonyms share: the first of them whose own first sense is the same."""
    wanted = {compound.replace(" ", "_") for compound in words["compounds"]}
    senses = {}
    for lemma, offsets in nouns.items():
        offset = first_sense(lemma, offsets, synsets)
        kind, written = synsets[offset]
        proper = kind in NAMED and all(w != lemma for w in written)
        # Among senses that were never tagged the order is arbitrary ("saw" would be a proverb).
        told = len(offsets) == 1 or frequencies[lemma, "n"] > 0
        if usable(lemma, wanted) and not proper:
            senses[lemma] = offset if told else None
    gendered = set(words["masculine"]) | set(words["feminine"])
    gendered |= {w for w, o in senses.items() if w.endswith(("man", "woman")) and o and synsets[o][0] == PERSON}
    # A gendered word keeps its own name: "police officer" must not become "policeman", nor the reverse.
    own = gendered | set(words["names"]) | {lemma for lemma, offset in senses.items() if offset is None}
    names = {}
    for lemma, offset in senses.items():
        if lemma in own:
            names[lemma] = words["names"].get(lemma, lemma).replace("_", " ")
            continue
        candidates = [w.lower() for w in synsets[offset][1]]
        names[lemma] = next(w for w in candidates if senses.get(w) == offset and w not in own).replace("_", " ")
    return names


def kind_of(word, offsets, synsets, frequencies):
    """Classify a noun: p, people (its first sense, and none is made); t, things; o, else what can be seen.

    Things that are also a rare word for people, such as "dog", often have a tagged first sense.
    """
    kinds = [synsets[offset][0] for offset in offsets]
    people = any(kind == PERSON and word in written for kind, written in map(synsets.get, offsets))
    if kinds and kinds[0] == PERSON and ARTIFACT not in kinds:
        return "p"
    often = frequencies[word, kinds[0]] if kinds and kinds[0] in THINGS else -1
    if often >= 0 and (not people or often >= max(5, 10 * frequencies[word, PERSON])):
        return "t"
    return "o" if SEEN.intersection(kinds) else ""


def table(source, words):
    """Rows of the lexicon: word, four frequencies (empty: no such part of speech), kind, shared name if another."""
    frequencies = read_frequencies(source)
    indexes = {part: read_index(source, name) for name, part in PARTS.items()}
    synsets = read_synsets(source)
    names = noun_names(indexes["n"], synsets, frequencies, words)
    known = {
        part: set(names) if part == "n" else {w for w in index if usable(w, ())} for part, index in indexes.items()
    }
    for word in sorted(set().union(*known.values())):
        counts = [str(frequencies[word, p]) if word in known[p] else "" for p in PARTS.values()]
        plain = word.replace("_", " ")
        name = names.get(word, plain)
        kind = kind_of(word, indexes["n"].get(word, ()), synsets, frequencies)
        counts.append("o" if kind and word in words["names"] else kind)  # whose first sense captions do not mean
        yield plain, ",".join(counts), "" if name == plain else name


def irregular(source, known):
    """Rows of inflected forms that no rule takes apart: form, part of speech, lemma."""
    for name, part in PARTS.items():
        for line in (source / f"{name}.exc").read_text().splitlines():
            form, *lemmas = line.split()
            yield from ((form, part, lemma) for lemma in lemmas if lemma in known and usable(form, ()))


def write(path, rows):
    """Tab-separated lines, compressed without a date, so that the same words give the same file."""
    text = "".join("\t".join(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{path.name}: {text.count(chr(10)):,} rows, {path.stat().st_size / 1e6:.2f} MB")


def check(forms):
    """Compare our noun lemmas of some plurals with those that the ``wn`` program finds."""
    sys.path.insert(0, str(ROOT))
    from bias_core.measures.wordnet import lexicon

    for form in forms:
        said = subprocess.run(["wn", form, "-synsn"], capture_output=True, text=True, check=False).stdout
        found = [line.split()[-1] for line in said.splitlines() if " of noun " in line]
        lemma = lexicon().lemma(form, "NOUN")
        print(f"{form:12} {lemma!s:12} {'agrees' if lemma in found else f'wn: {found}'}")


def main(source):
    """Write both tables."""
    words = json.loads((TARGET / "words.json").read_text())
    rows = list(table(source, words))
    write(TARGET / "lexicon.tsv.gz", rows)
    write(TARGET / "irregular.tsv.gz", sorted(set(irregular(source, {row[0] for row in rows}))))


if __name__ == "__main__":
    if "--check" in sys.argv:
        check(("men", "children", "mice", "knives", "glasses", "arms", "buses", "boxes", "leaves", "teeth"))
    else:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/wordnet"))
