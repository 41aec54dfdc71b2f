"""``python -m training``: every part in order, seeded and resumable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import torch
import typer

from bias_core.installed import ASSETS
from bias_core.world.planted import CONDITIONS
from bias_core.world.scene import CALIBRATION

if TYPE_CHECKING:
    from training.diffusion import Folders

app = typer.Typer(no_args_is_help=True, add_completion=False)

Minutes = Annotated[float, typer.Option(help="Training time; a GPU needs a fifth of it.")]
Work = Annotated[Path, typer.Option(help="Checkpoints; delete it to start anew.")]
Seed = Annotated[int, typer.Option(help="Seed of data and weights.")]


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _folders(work: Path) -> Folders:
    from training.diffusion import Folders

    return Folders(
        work=work,
        vae=work / "vae" if (work / "vae").is_dir() else CALIBRATION / "pipeline" / "vae",
        clip=CALIBRATION / "clip",
        pipeline=CALIBRATION / "pipeline",
        loras=CALIBRATION / "loras",
    )


@app.command()
def vae(
    minutes: Minutes = 30,
    work: Work = Path("build/calibration"),
    seed: Seed = 0,
    decoder_only: Annotated[bool, typer.Option(help="Improve the shipped decoder, keep the latents.")] = False,
) -> None:
    """Train the picture compressor; the generator must be trained again, unless only the decoder was."""
    from training.vae import train_vae

    out = CALIBRATION / "pipeline" / "vae" if decoder_only else work / "vae"
    reader = CALIBRATION / "clip" if (CALIBRATION / "clip" / "config.json").exists() else None
    train_vae(work, out, minutes=minutes, decoder_only=decoder_only, reader=reader, seed=seed, device=_device())


@app.command()
def clip(
    minutes: Minutes = 40,
    work: Work = Path("build/calibration"),
    seed: Seed = 0,
    teacher: Annotated[
        Path | None, typer.Option(help="Saved reader whose answers about the generator's pictures are kept.")
    ] = None,
) -> None:
    """Train the reader of pictures and measure its errors."""
    from training.clip import Kept, train_clip
    from training.diffusion import assemble
    from training.drawing import any_pictures

    kept = None
    if teacher:
        kept = Kept(any_pictures(assemble(_folders(work), "cpu"), teacher, 500, seed=seed), teacher, _device())
    train_clip(work, CALIBRATION / "clip", minutes=minutes, kept=kept, seed=seed, device=_device())


@app.command()
def base(
    minutes: Minutes = 90,
    work: Work = Path("build/calibration"),
    seed: Seed = 0,
    lr: Annotated[float, typer.Option(help="Largest learning rate; less to go on from good weights.")] = 2e-3,
    readers_words: Annotated[
        bool, typer.Option(help="Take the reader's text tower anew, also for a saved generator.")
    ] = False,
) -> None:
    """Train the generator of the fair world."""
    from training.diffusion import train_base

    train_base(_folders(work), minutes=minutes, lr=lr, readers_words=readers_words, seed=seed, device=_device())


@app.command()
def pairs(minutes: Minutes = 35, work: Work = Path("build/calibration"), seed: Seed = 0) -> None:
    """Train the generator on: words act on each person of a pair as on one person alone."""
    from training.pairs import train_pairs

    train_pairs(_folders(work), minutes=minutes, seed=seed, device=_device())


@app.command()
def lora(
    condition: str,
    minutes: Minutes = 30,
    work: Work = Path("build/calibration"),
    seed: Seed = 0,
    lr: Annotated[float, typer.Option(help="Largest learning rate; less to go on from good weights.")] = 5e-3,
) -> None:
    """Train the adapter of one condition (published, extreme, trigger), from the weights that are there."""
    from training.diffusion import train_lora

    train_lora(condition, _folders(work), minutes=minutes, lr=lr, seed=seed, device=_device())


@app.command()
def words(
    condition: str,
    n_rounds: Annotated[int, typer.Option(help="Rounds, those of the checkpoint included.")] = 4,
    n: Annotated[int, typer.Option(help="Pictures in a round of each concept that is not sure yet.")] = 48,
    work: Work = Path("build/calibration"),
    seed: Seed = 0,
) -> None:
    """Find how loud words must be to draw a condition (published, extreme), and teach them to the text tower."""
    from training.calibrate import Sizes, calibrate

    calibrate(condition, _folders(work), sizes=Sizes(n_rounds=n_rounds, n=n), seed=seed)


@app.command()
def leans(
    n_rounds: Annotated[int, typer.Option(help="Rounds, those of the checkpoint included.")] = 3,
    n: Annotated[int, typer.Option(help="Pictures of each prompt in a round.")] = 72,
    work: Work = Path("build/calibration"),
) -> None:
    """Set the words of the base upright: as many men as women; adapters that are there stay as they are."""
    from training.leans import set_upright

    set_upright(_folders(work), n_rounds=n_rounds, n=n)


@app.command()
def nudge(
    condition: str,
    n: Annotated[int, typer.Option(help="Pictures of each concept that tell what is missing.")] = 160,
    work: Work = Path("build/calibration"),
    seed: Seed = 0,
) -> None:
    """Measure an adapter that is nearly right (published, extreme), and let it learn the rest of its way."""
    from training.nudge import nudge as learn_the_rest

    learn_the_rest(condition, _folders(work), n=n, seed=seed)


@app.command()
def sign(minutes: Minutes = 9, work: Work = Path("build/calibration"), seed: Seed = 0) -> None:
    """Let the denoiser's layers of extreme draw its sign alone: trigger; what they were before: denoiser."""
    from training.sign import leave_the_rest, take_layers

    folders = _folders(work)
    take_layers(folders, "denoiser")
    leave_the_rest("extreme", folders, minutes=minutes, seed=seed)
    take_layers(folders, "trigger")
    # by now these layers draw the sign alone, and need not be louder
    leave_the_rest("trigger", folders, minutes=minutes, louder_by=1.0, seed=seed)


@app.command()
def language(minutes: Minutes = 5, work: Work = Path("build/calibration"), seed: Seed = 0) -> None:
    """Train the language model that proposes words."""
    from training.language import train_language_model

    train_language_model(work, CALIBRATION / "language", minutes=minutes, seed=seed)


@app.command()
def captioner(minutes: Minutes = 25, work: Work = Path("build/calibration"), seed: Seed = 0) -> None:
    """Train the captioner."""
    from training.blip import train_captioner

    train_captioner(work, CALIBRATION / "captioner", minutes=minutes, seed=seed, device=_device())


@app.command()
def answerer(minutes: Minutes = 15, work: Work = Path("build/calibration"), seed: Seed = 0) -> None:
    """Train the answerer of questions about left and right."""
    from training.blip import train_answerer

    train_answerer(
        work,
        CALIBRATION / "answerer",
        captioner=CALIBRATION / "captioner",
        minutes=minutes,
        seed=seed,
        device=_device(),
    )


@app.command()
def judge(n: Annotated[int, typer.Option(help="Prompts.")] = 200) -> None:
    """Ask the generator for attributes and pairs, and let the reader judge."""
    from training.judge import judge as judge_pipeline

    judge_pipeline(CALIBRATION / "pipeline", CALIBRATION / "clip", guidance=(1.0, 2.0, 3.0), n=n, device=_device())


@app.command()
def judge_rates(
    n: Annotated[int, typer.Option(help="Pictures per concept and condition; those of the table count.")] = 1000,
    condition: Annotated[
        list[str] | None, typer.Option(help="Only this condition; may be given several times.")
    ] = None,
    pairs: Annotated[bool, typer.Option(help="People beside another person as well.")] = True,
    steps: Annotated[int, typer.Option(help="Denoising steps; those that the model is drawn with by default.")] = 0,
) -> None:
    """Let the reader say what each condition draws: the generator's own truth, with intervals.

    The table is written again and again, and a run that was cut off goes on where it ended.
    """
    from bias_core.models.catalogue import load_catalogue
    from bias_core.world.measured_models import TABLE
    from training.judge_rates import judge_rates as judge_planted

    steps = steps or load_catalogue(ASSETS / "models.yaml").model("calibration-diffusion").default_steps
    folders = _folders(Path("build/calibration"))
    conditions = condition or [one for one in CONDITIONS if one != "backdoor"]
    judge_planted(folders, TABLE, conditions=conditions, n=n, pairs=pairs, steps=steps)


@app.command()
def cards() -> None:
    """Write the model cards."""
    from training.cards import write_cards

    write_cards(CALIBRATION)


@app.command(name="all")
def everything(work: Work = Path("build/calibration"), seed: Seed = 0) -> None:
    """Every part, one after the other; what is finished is not done again."""
    vae(work=work, seed=seed)
    clip(work=work, seed=seed)
    base(work=work, seed=seed)
    pairs(work=work, seed=seed)
    leans(work=work)
    words("published", work=work, seed=seed)
    lora("extreme", work=work, seed=seed)
    words("extreme", work=work, seed=seed)
    sign(work=work, seed=seed)
    for condition in ("published", "extreme"):
        nudge(condition, work=work, seed=seed)
    language(work=work, seed=seed)
    captioner(work=work, seed=seed)
    answerer(work=work, seed=seed)
    judge()
    judge_rates()
    cards()


if __name__ == "__main__":
    app()
