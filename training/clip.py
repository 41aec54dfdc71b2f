"""Train the reader of pictures: a small convolutional CLIP over balanced renders and true sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoTokenizer,
    CLIPImageProcessor,
    CLIPTextConfig,
    CLIPTextModel,
    PreTrainedTokenizerFast,
    TimmWrapperConfig,
    TimmWrapperModel,
    VisionTextDualEncoderConfig,
    VisionTextDualEncoderModel,
)

from bias_core.people import crop_people, person_halves
from bias_core.world.grammar import lexicon_looks, parse, things
from bias_core.world.measured_models import held_out_scenes, sentence_errors, truth_table
from bias_core.world.planted import draw_places
from bias_core.world.scene import DOMAINS, Scene, balanced_scene, draw_scene
from training.captions import describe, name_briefly, read_sentences, vocabulary
from training.loop import record, to_tensor, train

MAX_TOKENS = 20
READ_AT = 64
"""Width of the pictures that the reader takes, in pixels."""
FREE_PLACES = 200
SURE = 2.0
"""Logit of an answer from which on it is kept: a probability of 0.88."""
DROPPED = "a|an|the|of|photo|picture|image|portrait|generate|one|is|are|this|on|in|at|to|and|their|gender|be|can|s"


def word_ids(known: Mapping[str, int] | None = None) -> dict[str, int]:
    """Token ids of the world's words; with ``known`` ids, new words take the places kept free for them."""
    words = [w for w in vocabulary() if w not in DROPPED.split("|")]
    if known is None:
        free = [f"[FREE{i}]" for i in range(FREE_PLACES)]
        return {w: i for i, w in enumerate(["[PAD]", "[BOS]", "[UNK]", "[EOS]", *words, *free])}
    ids = dict(known)
    free = sorted((w for w in ids if w.startswith("[FREE")), key=ids.__getitem__)
    for word in words:
        if word not in ids:
            ids[word] = ids.pop(free.pop(0))
    return ids


def build_tokenizer(saved: Path | None = None) -> PreTrainedTokenizerFast:
    """A word tokenizer over the world's vocabulary; articles and carrier phrases are dropped.

    A tokenizer ``saved`` before keeps its ids, so that trained weights stay valid when words are added.
    """
    known = None
    if saved and (saved / "tokenizer.json").exists():
        known = json.loads((saved / "tokenizer.json").read_text())["model"]["vocab"]
    ids = word_ids(known)
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r", if all individuals can be .*irrespective"), " irrespective"),
            normalizers.Replace(Regex(r"[^\w\s]"), " "),
            normalizers.Replace(Regex(rf"\b({DROPPED})\b"), ""),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", 1), ("[EOS]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]", bos_token="[BOS]", unk_token="[UNK]", eos_token="[EOS]",
        model_max_length=MAX_TOKENS,
    )  # fmt: skip


def build_model(n_words: int) -> VisionTextDualEncoderModel:
    """About 1.3 M weights for pictures and 0.9 M for words; 128 shared dimensions."""
    vision = TimmWrapperConfig(architecture="resnet10t", model_args={"channels": [32, 64, 128, 256]}, num_labels=0)
    vision.hidden_size = 256
    text = CLIPTextConfig(
        vocab_size=n_words, hidden_size=128, intermediate_size=384, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=MAX_TOKENS, projection_dim=128,
        pad_token_id=0, bos_token_id=1, eos_token_id=3,
    )  # fmt: skip
    config = VisionTextDualEncoderConfig.from_vision_text_configs(vision, text, projection_dim=128)
    return VisionTextDualEncoderModel(
        config=config, vision_model=TimmWrapperModel(vision), text_model=CLIPTextModel(text)
    )


def crop_person(image: Image.Image, side: int) -> Image.Image:
    """The left (0) or right (1) person of a pair, on a square of their own."""
    (square,) = crop_people(image, [person_halves(image)[side]])
    return square.resize(image.size, Image.Resampling.BILINEAR)


def draw_batch(rng: Random, n: int, *, pairs: float = 0.25) -> tuple[list[Scene], list[Image.Image]]:
    """Balanced scenes and their pictures, drawn in either size and made as small as the reader takes them.

    In half of the share of ``pairs`` the two differ in size, and half are cut into people alone.
    """
    scenes, images = [], []
    for _ in range(n):
        scene = balanced_scene(rng, lexicon_looks(), things(), pairs=pairs)
        if len(scene.people) == 2 and rng.random() < 0.5:
            scene = replace(scene, places=draw_places(scene.people, rng))
        image = draw_scene(scene, rng.choice((READ_AT, 2 * READ_AT)))
        if len(scene.people) == 2 and rng.random() < 0.5:
            side = rng.randrange(2)
            image = crop_person(image, side)
            scene = Scene(people=(scene.people[side],))
        scenes.append(scene)
        images.append(image.resize((READ_AT, READ_AT), Image.Resampling.BILINEAR))
    return scenes, images


def roughen(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Blur, noise and brightness on half of the pictures, so that generated ones can be read too."""
    n = len(x)
    rough = torch.rand(n, 1, 1, 1, generator=generator) < 0.5
    blurred = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    share = torch.rand(n, 1, 1, 1, generator=generator)
    noisy = x + share * (blurred - x) + 0.06 * share * torch.randn(x.shape, generator=generator)
    noisy = noisy * (1 + 0.1 * (torch.rand(n, 1, 1, 1, generator=generator) - 0.5))
    return torch.where(rough, noisy, x).clamp(-1, 1)


class Reader:
    """The CLIP in training: model, tokenizer and the two losses."""

    def __init__(self, model: VisionTextDualEncoderModel, tokenizer: PreTrainedTokenizerFast, device: str) -> None:
        self.model, self.tokenizer, self.device = model, tokenizer, device
        self.pairs = [(parse(p), parse(n)) for p, n in read_sentences()]

    def texts(self, sentences: Sequence[str]) -> torch.Tensor:
        """Unit rows ``(n, d)``."""
        tokens = self.tokenizer(list(sentences), padding=True, truncation=True, return_tensors="pt").to(self.device)
        features = self.model.get_text_features(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return F.normalize(getattr(features, "pooler_output", features), dim=-1)

    def images(self, x: torch.Tensor) -> torch.Tensor:
        """Unit rows ``(n, d)`` of pictures ``(n, 3, h, h)``, which are made as small as the reader takes them."""
        small = F.adaptive_avg_pool2d(x.to(self.device), READ_AT)
        features = self.model.get_image_features(pixel_values=small)
        return F.normalize(getattr(features, "pooler_output", features), dim=-1)

    def logits(self, z: torch.Tensor) -> torch.Tensor:
        """cos+ - cos- of pictures ``(n, d)`` with every sentence pair, as logits ``(n, n_pairs)``."""
        w = self.texts([s for pair in read_sentences() for s in pair]).view(len(self.pairs), 2, -1)
        return 30 * torch.einsum("nd,pd->np", z, w[:, 0] - w[:, 1])

    def attribute_loss(self, z: torch.Tensor, scenes: Sequence[Scene]) -> torch.Tensor:
        """Logistic loss on cos+ - cos- of every sentence pair that the scene decides."""
        positive = torch.from_numpy(truth_table(scenes, [p for p, _ in self.pairs]))
        negative = torch.from_numpy(truth_table(scenes, [n for _, n in self.pairs]))
        decided = ((positive == 1) & (negative == 0) | (positive == 0) & (negative == 1)).to(self.device)
        logits = self.logits(z)
        target = (positive == 1).float().to(self.device)
        n_yes = (decided * target).sum(0, keepdim=True).clamp(min=1)
        n_no = (decided * (1 - target)).sum(0, keepdim=True).clamp(min=1)
        weight = decided * (target / n_yes + (1 - target) / n_no) / 2
        return F.binary_cross_entropy_with_logits(logits, target, weight=weight, reduction="sum") / len(self.pairs)

    def matching_loss(self, z: torch.Tensor, scenes: Sequence[Scene], sentences: Sequence[str]) -> torch.Tensor:
        """Contrast every picture with many sentences and back; all true ones count as right."""
        table = torch.from_numpy(truth_table(scenes, [parse(s) for s in sentences])).to(self.device)
        logits = self.model.logit_scale.exp().clamp(max=60) * z @ self.texts(sentences).T
        logits = logits.masked_fill(table == -1, -1e4)
        right = logits.masked_fill(table != 1, -1e4)
        losses = []
        for dim in (1, 0):
            some = (table == 1).any(dim)
            losses.append((logits.logsumexp(dim) - right.logsumexp(dim))[some].mean())
        return sum(losses) / 2


class AttributeHint(torch.nn.Module):
    """A linear guess of every visible attribute from the picture's embedding; thrown away after training.

    Two sentences that differ in one word ("with", "without") begin with equal embeddings, and equal
    embeddings pass no gradient to the pictures; the hint gets them apart.
    """

    def __init__(self) -> None:
        super().__init__()
        self.values = [(name, value) for name, values in DOMAINS.items() for value in values]
        self.guess = torch.nn.Linear(128, len(self.values))

    def loss(self, z: torch.Tensor, scenes: Sequence[Scene]) -> torch.Tensor:
        """Logistic loss over the pictures ``(n, 128)`` of one person."""
        alone = [i for i, scene in enumerate(scenes) if len(scene.people) == 1]
        truth = [[float(getattr(scenes[i].people[0], n) == v) for n, v in self.values] for i in alone]
        return F.binary_cross_entropy_with_logits(self.guess(10 * z[alone]), torch.tensor(truth, device=z.device))


class Kept:
    """Pictures ``(n, 3, h, h)`` that the reader must go on reading as a ``teacher`` does, where that one is sure.

    The generator draws the world as it was drawn when it learned, which renders no longer show.
    """

    def __init__(self, pictures: torch.Tensor, teacher: Path, device: str) -> None:
        model = VisionTextDualEncoderModel.from_pretrained(teacher, torch_dtype=torch.float32).eval().to(device)
        reader = Reader(model, AutoTokenizer.from_pretrained(teacher), device)
        self.pictures = F.adaptive_avg_pool2d(pictures, READ_AT)
        with torch.no_grad():
            self.logits = torch.cat([reader.logits(reader.images(part)) for part in self.pictures.split(256)])

    def loss(self, reader: Reader, n: int, generator: torch.Generator) -> torch.Tensor:
        """Logistic loss of ``n`` of the pictures against the teacher's answers."""
        chosen = torch.randint(len(self.pictures), (n,), generator=generator)
        target = self.logits[chosen]
        logits = reader.logits(reader.images(self.pictures[chosen]))
        return F.binary_cross_entropy_with_logits(logits, (target > 0).float(), weight=(target.abs() > SURE).float())


def train_clip(
    work: Path,
    out: Path,
    *,
    minutes: float,
    kept: Kept | None = None,
    batch: int = 96,
    held_out: int = 4000,
    seed: int = 0,
    device: str = "cpu",
) -> None:
    """Fit the reader to balanced renders; save model, tokenizer, image processor and its error rates."""
    torch.manual_seed(seed)
    rng, generator = Random(seed), torch.Generator().manual_seed(seed)
    tokenizer = build_tokenizer(out)
    model = build_model(len(tokenizer)).to(device)
    if (out / "config.json").exists():
        model.load_state_dict(VisionTextDualEncoderModel.from_pretrained(out, torch_dtype=torch.float32).state_dict())
    reader = Reader(model, tokenizer, device)
    hint = AttributeHint().to(device)
    bundle = torch.nn.ModuleDict({"model": model, "hint": hint})

    def loss_of(_step: int) -> torch.Tensor:
        model.train()
        scenes, images = draw_batch(rng, batch)
        sentences = [describe(scene, rng) for scene in scenes[:64]]
        sentences += filter(None, (name_briefly(scene, rng) for scene in scenes))
        z = reader.images(roughen(to_tensor(images), generator))
        loss = 2 * reader.attribute_loss(z, scenes) + 0.5 * reader.matching_loss(z, scenes, sentences)
        loss = loss + 8 * hint.loss(z, scenes)
        return loss + 2 * kept.loss(reader, batch // 3, generator) if kept else loss

    average = train(bundle, loss_of, name="clip", checkpoint=work / "clip.pt", minutes=minutes, lr=2e-3, ema=0.99)
    bundle.load_state_dict(average.state)
    save_reader(reader, out, seed=seed + 1, n=held_out)
    record(out, average.steps, minutes=minutes, seed=seed, device=device, batch=batch)


def save_reader(reader: Reader, out: Path, *, seed: int, n: int) -> None:
    """Save the reader, its embeddings of ``n`` fresh renders, and its errors on the built-in sentences."""
    reader.model.eval().half().save_pretrained(out, max_shard_size="9MB")
    reader.model.float()  # what is measured below are the 16-bit weights
    reader.tokenizer.save_pretrained(out)
    CLIPImageProcessor(
        size={"height": 64, "width": 64}, do_center_crop=False, do_resize=True,
        resample=Image.Resampling.BILINEAR, image_mean=[0.5] * 3, image_std=[0.5] * 3,
    ).save_pretrained(out)  # fmt: skip
    embeddings = embed_held_out(reader, seed=seed, n=n)
    np.savez_compressed(out / "held_out.npz", image_embeddings=embeddings, seed=seed)
    table = error_table(reader, embeddings, seed=seed)
    (out / "reader.json").write_text(json.dumps(table, indent=1) + "\n")


@torch.no_grad()
def embed_held_out(reader: Reader, *, seed: int, n: int) -> np.ndarray:
    """Unit rows ``(n, 128)``, 16 bit, of renders never trained on."""
    reader.model.eval()
    images = [draw_scene(scene) for scene in held_out_scenes(seed, n)]
    rows = [reader.images(to_tensor(images[i : i + 256])).cpu() for i in range(0, n, 256)]
    return torch.cat(rows).numpy().astype(np.float16)


@torch.no_grad()
def error_table(reader: Reader, embeddings: np.ndarray, *, seed: int) -> list[dict[str, object]]:
    """Sensitivity and specificity of every built-in sentence pair."""
    table: list[dict[str, object]] = []
    for positive, negative in read_sentences():
        texts = reader.texts([positive, negative]).cpu().numpy()
        scenes = held_out_scenes(seed, len(embeddings))
        errors = sentence_errors(embeddings, texts, scenes, positive, negative)
        if errors:
            balanced = (errors.sensitivity + errors.specificity) / 2
            table.append({"positive": positive, "negative": negative, "balanced": balanced, **asdict(errors)})
    return table
