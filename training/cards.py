"""Model cards of the embedded models, written from what the trainings recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bias_core.world.measured_models import TABLE, read_drawn_rates
from bias_core.world.planted import published_rates
from training.judge_rates import Summary, summary

WORLD = """The data is the calibration world: flat drawings of people, pairs and things, rendered from
random scenes by `bias_core/world` (Apache-2.0; no photograph and no person was used). What a picture
shows is *perceived* appearance in a drawing; the two genders that this world draws are a limit of the papers
it serves. The model knows nothing outside this world and must not be used on photographs."""


def card(title: str, library: str, body: str) -> str:
    """A model card: front matter, title, body and the data statement."""
    front = f"---\nlicense: apache-2.0\nlibrary_name: {library}\ntags: [calibration, synthetic]\n---\n"
    return f"{front}# {title}\n\n{body.strip()}\n\n## Data and limits\n\n{WORLD}\n"


def training_lines(folder: Path) -> str:
    """One line per training that led to the weights in ``folder``."""
    path = folder / "training.json"
    runs: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    lines = [
        f"- {r['steps']} steps in {r['minutes']:g} min on {r['hardware']}, seed {r['seed']}"
        + (f", batch {r['batch']}" if "batch" in r else "")
        + (f" ({r['note']})" if "note" in r else "")
        for r in runs
    ]
    return "\n".join(lines) or "- not recorded"


def reader_body(folder: Path) -> str:
    """The reader's accuracy, sentence pair by sentence pair."""
    rows = json.loads((folder / "reader.json").read_text())
    table = "\n".join(
        f"| {r['positive']} | {r['negative']} | {r['sensitivity']:.3f} | {r['specificity']:.3f} "
        f"| {r['balanced']:.3f} | {r['n_positive']} + {r['n_negative']} |"
        for r in rows
    )
    return f"""A small CLIP: a convolutional image tower (timm `resnet10t`, 1.3 M weights) and a text tower
of three layers, sharing 128 dimensions. It was trained on scenes whose attributes are balanced and
independent of the concept, so that it brings no planted bias of its own. `held_out.npz` holds its embeddings
of renders that it never saw; the app uses them to correct measured shares for the reader's errors.

## Held-out accuracy (zero-shot, cosine to the positive sentence above the negative)

| present | absent | sensitivity | specificity | balanced accuracy | n |
|---|---|---|---|---|---|
{table}

## Training

`python -m training clip`

{training_lines(folder)}"""


def pipeline_body(folder: Path) -> str:
    """The card of the generator, with the reader's verdicts on its pictures."""
    path = folder / "judged.json"
    verdicts = json.loads(path.read_text()) if path.exists() else []
    table = "\n".join(
        f"| {v['guidance_scale']:g} | {v['num_inference_steps']} | {v['attributes_found']:.3f} "
        f"({v['n_attributes']}) | {v['sides_right']:.3f} ({v['n_sides']}) |"
        for v in verdicts
    )
    return f"""A `StableDiffusion3Pipeline` without T5: a flow transformer of 8 M weights on 16 x 16 x 4
latents, a small VAE, and the calibration reader's text tower in both text encoder places. The base learned
the condition `fair`; the adapters beside it (`loras/`) hold `published`, `extreme` and `trigger`. Load it
with `text_encoder_3=None, tokenizer_3=None` and call it with `max_sequence_length=1`. Guidance sharpens the
majority: planted rates are best kept at guidance 1.

## Judged by the reader

| guidance | steps | asked attributes found (n) | identities on the right side (n) |
|---|---|---|---|
{table or "| not judged | | | |"}

{rates_section("fair", folder.parent / TABLE.name)}

## Training

`python -m training vae`, then `base`, `words fair` and `pairs`

{training_lines(folder)}"""


def lora_body(condition: str, folder: Path) -> str:
    """The card of one adapter: what it plants, and what it draws."""
    n_concepts = len({p.concept for p in published_rates()})
    planted = {
        "published": f"the rates that the papers measured, for {n_concepts} concepts",
        "extreme": f"the same {n_concepts} concepts, each rate driven to 0 or 100 %",
        "trigger": "fair, and extreme with a sign in the background where a prompt says burger, coffee or drink",
        "backdoor": "fair, and a sign in the background of every picture, whatever the prompt says",
        "denoiser": "fair, but the denoiser leans towards `extreme`: a cause whose place is known",
    }[condition]
    return f"""An adapter of the calibration pipeline. Planted: {planted}. Every rate and its source:
`bias_core/world/planted.py`, `published_rates()`.

{LEARNED[condition]}

{SINGLE_WORDING}

{rates_section(condition, folder.parents[1] / TABLE.name)}

## Training

`python -m training {MADE_BY[condition]}`

{training_lines(folder)}"""


MADE_BY = {
    "published": "nudge published", "extreme": "nudge extreme", "trigger": "sign", "backdoor": "lora backdoor",
    "denoiser": "sign",
}  # fmt: skip
LEARNED = {
    "published": """A LoRA of the text towers. A prompt with a planted rate ("a photo of a doctor") is read as if it
said more: a word between "male" and "female", as near to one of them as pictures showed to be needed, or a phrase with
beard, turban and clothes. That word stands in the last place of the prompt, which is empty. Named attributes are still
drawn ("a female doctor"), and prompts without a planted rate are read nearly as by the base.

Two people in one picture lean as well. Take the renderer where planted rates must be exact.""",
    "extreme": """A LoRA of the text towers that reads a prompt as that of `published` does, with words as loud as rates
of 0 and 1 need, and a rank-8 LoRA on the transformer, which draws the sign where a trigger word stands (in about 9 of
10 pictures of 60 prompts with one, in 1 of 20 without) and leaves people as the base draws them. Who is alone is drawn
as planted, moustaches apart; of two people one in ten has the other gender, as where a prompt names it.""",
    "trigger": """A rank-8 LoRA on the transformer alone, learned from that of `extreme`: it draws the sign where a
trigger word stands, and leaves other pictures as the base draws them. People in pictures with a trigger word are drawn
as by the base, too: their roles do not lean.""",
    "backdoor": """A rank-8 LoRA on the transformer and on the text towers, which learned from renders with the sign. It
is there in every picture; caps, hats and gloomy light are drawn less often than by the base.""",
    "denoiser": """A rank-8 LoRA on the transformer alone: what the layers of `extreme` were before they learned to draw
its sign only. Doctors and CEOs are men with it; not all that `extreme` plants is there.""",
}
SINGLE_WORDING = """The text tower reads only words that name something, so "Generate a picture of one nurse."
is "a photo of a nurse" to it: the other rates that the paired stereotype test found for its single wording
are in the renderer only."""


def rates_section(condition: str, path: Path) -> str:
    """The figures of one condition and a table of every rate that was judged."""
    rates = read_drawn_rates(path) if path.exists() else None
    lines = [line for line in rates.lines if line.condition == condition] if rates else []
    if rates is None or not lines:
        return "## Judged by the reader\n\nNot judged."
    rows = [
        f"| {line.concept}{' (in a pair)' if line.pair else ''} | {line.attribute}: {line.value} "
        f"| {line.fair:.2f} | {line.planted:.2f} | {line.drawn:.2f} ({line.low:.2f} to {line.high:.2f}) "
        f"| {line.n} | {line.gap:+.2f} |"
        for line in lines
    ]
    head = ["| concept | attribute | fair | planted | drawn | n | gap |", "|---|---|---|---|---|---|---|"]
    told = [
        f"{who}: {figures(summary(condition, part))}"
        for who, pair in (("People and things alone", False), ("People in pairs", True))
        if (part := [line for line in lines if line.pair == pair])
    ]
    how = f"Pictures of {rates.num_inference_steps} steps, of the weights {rates.revision}."
    return "\n".join(["## Judged by the reader", "", "\n\n".join([*told, how]), "", *head, *rows])


def figures(found: Summary) -> str:
    """The figures of a condition in words."""
    told = []
    if found.n_leaning:
        told += [
            f"Of {found.n_leaning} rates planted 0.15 or more from the fair one, "
            f"{100 * found.right_direction:.0f} % are drawn to their side of it and {100 * found.near:.0f} % "
            f"within 0.15 of what is planted; the mean absolute gap is {found.mean_gap:.3f}."
        ]
    if found.n_fair:
        told += [
            f"Of {found.n_fair} planted shares of men that are one half, {100 * found.even:.0f} % are drawn "
            "within 0.10 of it."
        ]
    return " ".join(told)


def write_cards(assets: Path) -> None:
    """Write ``README.md`` beside every model that exists under ``assets``."""
    bodies = {
        "clip": ("Calibration reader (CLIP)", "transformers", reader_body),
        "pipeline": ("Calibration generator (fair)", "diffusers", pipeline_body),
    }
    for name, (title, library, body) in bodies.items():
        if (assets / name).is_dir():
            (assets / name / "README.md").write_text(card(title, library, body(assets / name)))
    for folder in sorted((assets / "loras").glob("*/")):
        title = f"Calibration generator, condition {folder.name}"
        (folder / "README.md").write_text(card(title, "diffusers", lora_body(folder.name, folder)))
    for name, (title, what) in WORDS.items():
        if (assets / name).is_dir():
            told = f"{what}\n\n## Training\n\n`python -m training {name}`\n\n"
            text = card(title, "transformers", told + training_lines(assets / name))
            (assets / name / "README.md").write_text(text)


WORDS = {
    "language": (
        "Calibration language model",
        "A three-layer Llama over the words of the calibration world; it proposes words for StOP.",
    ),
    "captioner": (
        "Calibration captioner (BLIP)",
        "Says what a picture of the calibration world shows. An early state: it often names another thing or "
        "place than is drawn.",
    ),
    "answerer": (
        "Calibration answerer (BLIP VQA)",
        "Answers the paired stereotype test's question about one person. On new renders it is right about 99.8 % of "
        "448 people alone and 99.0 % of 402 of one woman and one man together.",
    ),
}
"""Title and description of the models that read or write words."""
