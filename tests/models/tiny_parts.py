"""Parts that tiny pipelines of the newer families are made of: tokenizers, text encoders, decoders."""

from importlib import import_module
from pathlib import Path


class Library:
    """A library that is imported when something of it is used: no test need wait for it to be collected."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("_"):  # who collects tests looks for such names
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


diffusers, torch, transformers = Library("diffusers"), Library("torch"), Library("transformers")
safetensors = Library("safetensors.torch")

WORDS = ["<pad>", "<bos>", "<eos>", "<unk>", "a", "an", "photo", "of", "male", "female", "doctor", "nurse", "man"]
MORE_WORDS = ["[IMG]", "[IMG_BREAK]", "[IMG_END]", "<|image_pad|>", "<|video_pad|>", "<|vision_start|>"]
MORE_WORDS += ["<|vision_end|>", "<|im_start|>", "<|im_end|>", "<|image|>", "<sop>", "<eop>", "system", "user"]
MORE_WORDS += ["<|dit_token_16384|>", "<|dit_token_16385|>", "assistant"]
N_WORDS = 64
# The text of a message, whichever way it is wrapped, with a mark at the end.
TEMPLATE = (
    "{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{{ m['content'][-1]['text'] }}{% endif %} {% endfor %}"
)
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
DECODER = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": N_WORDS, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 4}
EYES = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
TOKEN_IDS = dict(zip(EYES, (18, 19, 16, 17), strict=True))


def tokenizer_of(words, *, framed=True, **options):
    """Words as tokens; what is not among them is the fourth. ``framed`` puts a start and an end around a text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    inside = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inside.pre_tokenizer = pre_tokenizers.Whitespace()
    if framed:
        inside.post_processor = processors.TemplateProcessing(
            single="<bos> $A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 2)]
        )
    special = {f"{name}_token": f"<{name}>" for name in ("pad", "bos", "eos", "unk")}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inside, **special, **options)


def tokenizer():
    """Words as tokens, those of chat templates among them."""
    words = [*WORDS, *MORE_WORDS]
    more = {"image": "<|image_pad|>", "video": "<|video_pad|>", "grid_bos": "<sop>", "grid_eos": "<eop>"}
    made = tokenizer_of(
        [*words, *(f"<{i}>" for i in range(len(words), N_WORDS))],
        model_max_length=64,
        extra_special_tokens={f"{name}_token": token for name, token in more.items()},
        additional_special_tokens=MORE_WORDS[:10],
    )
    made.chat_template = TEMPLATE
    return made


def small_tokenizer():
    """A tokenizer of the words in the tests' prompts."""
    return tokenizer_of(WORDS, model_max_length=16)


def text_config(vocab_size=13, max_position_embeddings=16):
    """A configuration of CLIP's tower for texts."""
    settings = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    settings |= {"vocab_size": vocab_size, "max_position_embeddings": max_position_embeddings, "projection_dim": 16}
    return transformers.CLIPTextConfig(**settings, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def clip_config(tower):
    """A configuration of CLIP with this tower for pictures."""
    texts = text_config().to_dict()
    return transformers.CLIPConfig(text_config=texts, vision_config=tower.to_dict(), projection_dim=16)


def change_weights(folder, change):
    """Change the tensors in a folder's only file of weights."""
    (file,) = folder.glob("*.safetensors")
    tensors = safetensors.load_file(file)
    change(tensors)
    safetensors.save_file(tensors, file, metadata={"format": "pt"})


def louder(module):
    """With weights so large that the prompt shows in the picture, which fresh ones do not all have."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.ndim > 1 and weight.numel() and "embed_tokens" not in name:
                weight.normal_(0.0, 1.5 / weight[0].numel() ** 0.5)
    return module.eval()


def qwen_vl():
    text = DECODER | {"rope_parameters": ROPE}
    vision = VISION | {"out_hidden_size": 16, "fullatt_block_indexes": [0], "window_size": 16}
    return transformers.Qwen2_5_VLForConditionalGeneration(
        transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **TOKEN_IDS)
    ).eval()


def qwen3_vl(n_layers: int = 8):
    text = DECODER | {"rope_parameters": ROPE, "num_hidden_layers": n_layers}
    vision = VISION | {"out_hidden_size": 16, "deepstack_visual_indexes": [0], "num_position_embeddings": 16}
    return transformers.Qwen3VLForConditionalGeneration(
        transformers.Qwen3VLConfig(text_config=text, vision_config=vision, **TOKEN_IDS)
    ).eval()


def decoder(kind: str, **changes):
    """A small language model of transformers: ``kind`` is its class, its configuration is of that name."""

    config = kind
    for ending in ("ForCausalLM", "Model"):
        config = config.removesuffix(ending)
    made = getattr(transformers, f"{config}Config")(**(DECODER | changes))
    return getattr(transformers, kind)(made).eval()


def mistral3():
    text = DECODER | {"model_type": "mistral"}
    vision = {"model_type": "pixtral", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
              "num_attention_heads": 2, "image_size": 16, "patch_size": 4, "head_dim": 8}  # fmt: skip
    return transformers.Mistral3ForConditionalGeneration(
        transformers.Mistral3Config(text_config=text, vision_config=vision, image_token_index=13)
    ).eval()


def t5(kind: str = "T5", **changes):
    config = getattr(transformers, f"{kind}Config")(
        **({"vocab_size": N_WORDS, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2,
            "pad_token_id": 0} | changes)
    )  # fmt: skip
    return getattr(transformers, f"{kind}EncoderModel")(config).eval()


def clip(kind: str = "CLIPTextModel"):
    return getattr(transformers, kind)(text_config(N_WORDS, 128)).eval()


def qwen_processor(kind: str):
    pictures = transformers.Qwen2VLImageProcessor(patch_size=4, temporal_patch_size=2, merge_size=2)
    films = getattr(transformers, "Qwen3VLVideoProcessor" if "3" in kind else "Qwen2VLVideoProcessor")()
    return getattr(transformers, kind)(
        image_processor=pictures, tokenizer=tokenizer(), video_processor=films, chat_template=TEMPLATE
    )


def unet(**options):
    return diffusers.UNet2DConditionModel(
        sample_size=16, in_channels=4, out_channels=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), block_out_channels=(8, 16), layers_per_block=1,
        attention_head_dim=2, norm_num_groups=4, **options,
    )  # fmt: skip


def eyes(**changes):
    """A configuration of CLIP's tower for pictures, and what prepares them."""
    settings = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    tower = transformers.CLIPVisionConfig(**settings | changes, image_size=32, patch_size=8, projection_dim=16)
    size = {"height": 32, "width": 32}
    return tower, transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size)


def vae(channels: int = 4, levels: int = 2, **changes):
    settings = {
        "block_out_channels": (8,) * levels, "down_block_types": ("DownEncoderBlock2D",) * levels,
        "up_block_types": ("UpDecoderBlock2D",) * levels, "latent_channels": channels, "norm_num_groups": 4,
        "layers_per_block": 1, "sample_size": 32, "shift_factor": 0.1, "scaling_factor": 0.9,
    }  # fmt: skip
    return diffusers.AutoencoderKL(**(settings | changes)).eval()


def vae_flux2():
    return diffusers.AutoencoderKLFlux2(
        sample_size=32, down_block_types=("DownEncoderBlock2D",), up_block_types=("UpDecoderBlock2D",),
        block_out_channels=(4,), layers_per_block=1, latent_channels=1, norm_num_groups=1, use_quant_conv=False,
        use_post_quant_conv=False,
    ).eval()  # fmt: skip


def vae_qwen():
    return diffusers.AutoencoderKLQwenImage(
        base_dim=24, z_dim=4, dim_mult=[1, 2, 4], num_res_blocks=1, temperal_downsample=[False, True],
        latents_mean=[0.1, 0.2, 0.3, 0.4], latents_std=[1.1, 1.2, 1.3, 1.4],
    ).eval()  # fmt: skip


def flow(**how):
    return diffusers.FlowMatchEulerDiscreteScheduler(**how)


def saved(pipeline, folder: Path) -> Path:
    """The pipeline in the layout of the hub."""
    pipeline.save_pretrained(folder)
    return folder
