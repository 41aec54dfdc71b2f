"""Tiny random pipelines of the newer families, of diffusers' own classes."""

import warnings

from tests.models import tiny_parts as parts
from tests.models.tiny_parts import diffusers, torch, transformers


def flux2():
    words = parts.tokenizer()
    processor = transformers.PixtralProcessor(
        image_processor=transformers.PixtralImageProcessor(), tokenizer=words, chat_template=parts.TEMPLATE
    )
    return diffusers.Flux2Pipeline(
        scheduler=parts.flow(use_dynamic_shifting=True), vae=parts.vae_flux2(), text_encoder=parts.mistral3(),
        tokenizer=processor, transformer=_flux2_transformer(),
    )  # fmt: skip


def _flux2_transformer(**changes):
    return parts.louder(diffusers.Flux2Transformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
        num_attention_heads=2, joint_attention_dim=48, timestep_guidance_channels=16,
        axes_dims_rope=[4, 4, 4, 4], **changes,
    ))  # fmt: skip


def klein(*, is_distilled: bool = False):
    return diffusers.Flux2KleinPipeline(
        scheduler=parts.flow(use_dynamic_shifting=True), vae=parts.vae_flux2(),
        text_encoder=parts.decoder("Qwen3ForCausalLM"), tokenizer=parts.tokenizer(),
        transformer=_flux2_transformer(guidance_embeds=False), is_distilled=is_distilled,
    )  # fmt: skip


def qwen_image():
    return diffusers.QwenImagePipeline(
        scheduler=parts.flow(use_dynamic_shifting=True), vae=parts.vae_qwen(), text_encoder=parts.qwen_vl(),
        tokenizer=parts.tokenizer(),
        transformer=parts.louder(diffusers.QwenImageTransformer2DModel(
            patch_size=2, in_channels=16, out_channels=4, num_layers=1, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=16, axes_dims_rope=(8, 4, 4),
        )),
    )  # fmt: skip


def qwen_image_21():
    return diffusers.QwenImage21Pipeline(
        scheduler=parts.flow(use_dynamic_shifting=True),
        vae=diffusers.AutoencoderKLQwenImage21(
            base_dim=8, decoder_base_dim=8, z_dim=4, dim_mult=[1, 1, 1, 1, 1], num_res_blocks=1,
            latents_mean=[0.1, 0.2, 0.3, 0.4], latents_std=[1.1, 1.2, 1.3, 1.4],
        ),
        text_encoder=parts.qwen3_vl(), processor=parts.qwen_processor("Qwen3VLProcessor"),
        transformer=parts.louder(diffusers.QwenImage21Transformer2DModel(
            in_channels=4, out_channels=4, num_layers=1, attention_head_dim=16, num_attention_heads=2,
            context_in_dim=16, axes_dims_rope=(8, 4, 4),
        )),
    )  # fmt: skip


def z_image():
    transformer = diffusers.ZImageTransformer2DModel(
        all_patch_size=(2,), all_f_patch_size=(1,), in_channels=16, dim=32, n_layers=1, n_refiner_layers=1,
        n_heads=2, n_kv_heads=2, cap_feat_dim=16, axes_dims=[8, 4, 4], axes_lens=[256, 32, 32],
    )  # fmt: skip
    with torch.no_grad():  # left as they come in memory
        transformer.x_pad_token.fill_(1.0)
        transformer.cap_pad_token.fill_(1.0)
    return diffusers.ZImagePipeline(
        scheduler=parts.flow(shift=3.0), vae=parts.vae(16), text_encoder=parts.decoder("Qwen3Model"),
        tokenizer=parts.tokenizer(), transformer=transformer,
    )  # fmt: skip


def hidream():
    words = [parts.tokenizer() for _ in range(4)]
    return diffusers.HiDreamImagePipeline(
        scheduler=parts.flow(shift=3.0), vae=parts.vae(),
        text_encoder=parts.clip("CLIPTextModelWithProjection"), tokenizer=words[0],
        text_encoder_2=parts.clip("CLIPTextModelWithProjection"), tokenizer_2=words[1],
        text_encoder_3=parts.t5(), tokenizer_3=words[2],
        text_encoder_4=parts.decoder("LlamaForCausalLM", attn_implementation="eager"), tokenizer_4=words[3],
        transformer=parts.louder(diffusers.HiDreamImageTransformer2DModel(
            patch_size=2, in_channels=4, out_channels=4, num_layers=1, num_single_layers=1,
            attention_head_dim=8, num_attention_heads=2, caption_channels=[16, 16], text_emb_dim=32,
            num_routed_experts=2, num_activated_experts=2, axes_dims_rope=(4, 2, 2), max_resolution=(32, 32),
            llama_layers=(0, 1),
        )),
    )  # fmt: skip


def chroma():
    return diffusers.ChromaPipeline(
        scheduler=parts.flow(), vae=parts.vae(), text_encoder=parts.t5(), tokenizer=parts.tokenizer(),
        transformer=parts.louder(diffusers.ChromaTransformer2DModel(
            patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=16, axes_dims_rope=[4, 4, 8],
            approximator_hidden_dim=16, approximator_layers=1, approximator_num_channels=16,
        )),
    )  # fmt: skip


def lumina2():
    return diffusers.Lumina2Pipeline(
        transformer=parts.louder(diffusers.Lumina2Transformer2DModel(
            sample_size=16, patch_size=2, in_channels=4, hidden_size=16, num_layers=1, num_refiner_layers=1,
            num_attention_heads=2, num_kv_heads=2, multiple_of=16, axes_dim_rope=[4, 2, 2], cap_feat_dim=16,
        )),
        scheduler=parts.flow(), vae=parts.vae(levels=4), text_encoder=parts.decoder("Gemma2Model"),
        tokenizer=parts.tokenizer(),
    )  # fmt: skip


def cogview4():
    return diffusers.CogView4Pipeline(
        tokenizer=parts.tokenizer(), text_encoder=parts.decoder("GlmModel"), vae=parts.vae(),
        transformer=parts.louder(diffusers.CogView4Transformer2DModel(
            patch_size=2, in_channels=4, num_layers=1, attention_head_dim=8, num_attention_heads=2,
            out_channels=4, text_embed_dim=16, time_embed_dim=8, condition_dim=4, sample_size=16,
        )),
        scheduler=parts.flow(
            base_shift=0.25, max_shift=0.75, base_image_seq_len=256, use_dynamic_shifting=True,
            time_shift_type="linear",
        ),
    )  # fmt: skip


def kandinsky5():
    return diffusers.Kandinsky5T2IPipeline(
        transformer=parts.louder(diffusers.Kandinsky5Transformer3DModel(
            in_visual_dim=4, in_text_dim=16, in_text_dim2=16, time_dim=16, out_visual_dim=4,
            patch_size=(1, 2, 2), model_dim=16, ff_dim=32, num_text_blocks=1, num_visual_blocks=1,
            axes_dims=(1, 1, 2), visual_cond=False, attention_type="regular",
        )),
        vae=parts.vae(levels=4), text_encoder=parts.qwen_vl(),
        tokenizer=parts.qwen_processor("Qwen2VLProcessor"), text_encoder_2=parts.clip(),
        tokenizer_2=parts.tokenizer(), scheduler=parts.flow(shift=7.0),
    )  # fmt: skip


def deep_vae():
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("block_types", ("ResBlock", "EfficientViTBlock")),
            ("block_out_channels", (8, 8)),
            ("qkv_multiscales", ((), (5,))),
            ("layers_per_block", (1, 1)),
        )
    }
    return diffusers.AutoencoderDC(
        latent_channels=4, attention_head_dim=2, downsample_block_type="conv",
        upsample_block_type="interpolate", scaling_factor=0.41407, **sides,
    )  # fmt: skip


def sana_sprint():
    return diffusers.SanaSprintPipeline(
        transformer=parts.louder(diffusers.SanaTransformer2DModel(
            patch_size=1, in_channels=4, out_channels=4, num_layers=1, num_attention_heads=2,
            attention_head_dim=8, num_cross_attention_heads=2, cross_attention_head_dim=8,
            cross_attention_dim=16, caption_channels=16, sample_size=32, qk_norm="rms_norm_across_heads",
            guidance_embeds=True,
        )),
        scheduler=diffusers.SCMScheduler(), vae=deep_vae(), text_encoder=parts.decoder("Gemma2Model"),
        tokenizer=parts.tokenizer(),
    )  # fmt: skip


def prx():
    from diffusers.models.transformers.transformer_prx import PRXTransformer2DModel
    from transformers.models.t5gemma.configuration_t5gemma import T5GemmaModuleConfig
    from transformers.models.t5gemma.modeling_t5gemma import T5GemmaEncoder

    inside = T5GemmaModuleConfig(
        **(
            parts.DECODER
            | {"num_hidden_layers": 1, "layer_types": ["full_attention"], "sliding_window": 64, "dropout_rate": 0.0}
        )
    )
    return diffusers.PRXPipeline(
        transformer=parts.louder(PRXTransformer2DModel(
            patch_size=2, in_channels=4, context_in_dim=16, hidden_size=16, mlp_ratio=2.0, num_heads=2,
            depth=1, axes_dim=[4, 4],
        )),
        scheduler=parts.flow(), text_encoder=T5GemmaEncoder(inside).eval(), tokenizer=parts.tokenizer(),
        vae=parts.vae(), default_sample_size=256,
    )  # fmt: skip


def omnigen():
    return diffusers.OmniGenPipeline(
        transformer=parts.louder(diffusers.OmniGenTransformer2DModel(
            in_channels=4, patch_size=2, hidden_size=16, num_attention_heads=2, num_key_value_heads=2,
            intermediate_size=32, num_layers=1, pad_token_id=0, vocab_size=parts.N_WORDS,
            pos_embed_max_size=32, time_step_dim=16,
            rope_scaling={"long_factor": [1.0] * 4, "short_factor": [1.0] * 4, "type": "su"},
        )),
        scheduler=parts.flow(), vae=parts.vae(levels=4, shift_factor=None), tokenizer=parts.tokenizer(),
    )  # fmt: skip


def aura_flow():
    return diffusers.AuraFlowPipeline(
        tokenizer=parts.tokenizer(), text_encoder=parts.t5("UMT5"), vae=parts.vae(shift_factor=None),
        transformer=parts.louder(diffusers.AuraFlowTransformer2DModel(
            sample_size=16, patch_size=2, in_channels=4, num_mmdit_layers=1, num_single_dit_layers=1,
            attention_head_dim=8, num_attention_heads=2, joint_attention_dim=16, caption_projection_dim=16,
            out_channels=4, pos_embed_max_size=256,
        )),
        scheduler=parts.flow(),
    )  # fmt: skip


def ideogram4():
    def transformer():
        return parts.louder(diffusers.Ideogram4Transformer2DModel(
            in_channels=4, num_layers=1, attention_head_dim=16, num_attention_heads=2, intermediate_size=32,
            adaln_dim=16, llm_features_dim=16 * 13, mrope_section=(4, 2, 2),
        ))  # fmt: skip

    import diffusers.pipelines.ideogram4.pipeline_ideogram4 as module

    n_layers = 1 + max(module.QWEN3_VL_ACTIVATION_LAYERS)
    return diffusers.Ideogram4Pipeline(
        scheduler=parts.flow(), vae=parts.vae_flux2(), text_encoder=parts.qwen3_vl(n_layers).model,
        tokenizer=parts.tokenizer(), transformer=transformer(), unconditional_transformer=transformer(),
    )  # fmt: skip


def nucleus():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without experts their weights have no elements
        transformer = diffusers.NucleusMoEImageTransformer2DModel(
            patch_size=2, in_channels=16, out_channels=4, num_layers=1, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=16, axes_dims_rope=(8, 4, 4), moe_enabled=False,
            capacity_factors=[8.0],
        )  # fmt: skip
    return diffusers.NucleusMoEImagePipeline(
        transformer=parts.louder(transformer), scheduler=parts.flow(use_dynamic_shifting=True),
        vae=parts.vae_qwen(), text_encoder=parts.qwen3_vl(), processor=parts.qwen_processor("Qwen3VLProcessor"),
    )  # fmt: skip


def hunyuan_image(*, guidance_embeds: bool = False):
    guiders = {}
    if not guidance_embeds:
        guiders = {
            "guider": diffusers.AdaptiveProjectedMixGuidance(adaptive_projected_guidance_start_step=2),
            "ocr_guider": diffusers.AdaptiveProjectedMixGuidance(adaptive_projected_guidance_start_step=3),
        }
    return diffusers.HunyuanImagePipeline(
        scheduler=parts.flow(shift=7.0),
        vae=diffusers.AutoencoderKLHunyuanImage(
            in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(32, 32), layers_per_block=1,
            spatial_compression_ratio=2, sample_size=32, scaling_factor=0.477,
        ),
        text_encoder=parts.qwen_vl(), tokenizer=parts.tokenizer(),
        text_encoder_2=parts.t5(vocab_size=256 + 128), tokenizer_2=transformers.ByT5Tokenizer(),
        transformer=parts.louder(diffusers.HunyuanImageTransformer2DModel(
            in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=8, num_layers=1,
            num_single_layers=1, num_refiner_layers=1, guidance_embeds=guidance_embeds, text_embed_dim=16,
            text_embed_2_dim=16, rope_axes_dim=(4, 4),
        )),
        **guiders,
    )  # fmt: skip


def ernie_image():
    return diffusers.ErnieImagePipeline(
        transformer=parts.louder(diffusers.ErnieImageTransformer2DModel(
            hidden_size=32, num_attention_heads=2, num_layers=1, ffn_hidden_size=32, in_channels=4,
            out_channels=4, text_in_dim=16, rope_axes_dim=(8, 4, 4),
        )),
        vae=parts.vae_flux2(), text_encoder=parts.decoder("Ministral3Model"), tokenizer=parts.tokenizer(),
        scheduler=parts.flow(), pe=parts.decoder("Ministral3ForCausalLM"), pe_tokenizer=parts.tokenizer(),
    )  # fmt: skip


def longcat():
    return diffusers.LongCatImagePipeline(
        scheduler=parts.flow(use_dynamic_shifting=True), vae=parts.vae(16), text_encoder=parts.qwen_vl(),
        tokenizer=parts.tokenizer(), text_processor=parts.qwen_processor("Qwen2_5_VLProcessor"),
        transformer=parts.louder(diffusers.LongCatImageTransformer2DModel(
            in_channels=64, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=[4, 4, 8],
        )),
    )  # fmt: skip


def glm_image():
    processor = transformers.GlmImageProcessor(
        image_processor=transformers.GlmImageImageProcessor(), tokenizer=parts.tokenizer(), chat_template=parts.TEMPLATE
    )
    # The prior sketches a picture first, in 16 x 16 tokens; here in 2 x 2.
    processor._get_target_shape = lambda height, width: (height // 32, width // 32, 2, 2)
    config = transformers.GlmImageConfig(
        text_config=parts.DECODER
        | {"vision_vocab_size": 32, "max_position_embeddings": 512, "rope_parameters": ROPE_GLM},
        vision_config={"depth": 1, "hidden_size": 16, "num_heads": 2, "image_size": 32, "patch_size": 8,
                       "intermediate_size": 16},
        vq_config={"embed_dim": 16, "num_embeddings": 32, "latent_channels": 16},
    )  # fmt: skip
    prior = parts.louder(transformers.GlmImageForConditionalGeneration(config))
    prior.generation_config.eos_token_id = None  # a random prior would end too early
    return diffusers.GlmImagePipeline(
        tokenizer=transformers.ByT5Tokenizer(), processor=processor,
        text_encoder=parts.t5(vocab_size=256 + 128), vision_language_encoder=prior,
        vae=parts.vae(levels=4, latents_mean=[0.1] * 4, latents_std=[1.3] * 4),
        transformer=parts.louder(diffusers.GlmImageTransformer2DModel(
            patch_size=2, in_channels=4, out_channels=4, num_layers=1, attention_head_dim=8,
            num_attention_heads=2, text_embed_dim=16, time_embed_dim=16, condition_dim=8,
            prior_vq_quantizer_codebook_size=32,
        )),
        scheduler=parts.flow(),
    )  # fmt: skip


ROPE_GLM = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}


def ovis_image():
    return diffusers.OvisImagePipeline(
        scheduler=parts.flow(use_dynamic_shifting=True), vae=parts.vae(),
        text_encoder=parts.decoder("Qwen3Model"), tokenizer=parts.tokenizer(),
        transformer=parts.louder(diffusers.OvisImageTransformer2DModel(
            in_channels=16, out_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=16, axes_dims_rope=(4, 4, 8),
        )),
    )  # fmt: skip


def krea2(*, is_distilled: bool = False):
    return diffusers.Krea2Pipeline(
        scheduler=parts.flow(use_dynamic_shifting=True), vae=parts.vae_qwen(), text_encoder=parts.qwen3_vl(),
        tokenizer=parts.tokenizer(),
        transformer=parts.louder(diffusers.Krea2Transformer2DModel(
            in_channels=16, num_layers=1, attention_head_dim=16, num_attention_heads=2,
            num_key_value_heads=2, intermediate_size=32, timestep_embed_dim=16, text_hidden_dim=16,
            num_text_layers=2, text_num_attention_heads=2, text_num_key_value_heads=2,
            text_intermediate_size=32, num_layerwise_text_blocks=1, num_refiner_text_blocks=1,
            axes_dims_rope=(8, 4, 4),
        )),
        text_encoder_select_layers=(2, 4), is_distilled=is_distilled,
    )  # fmt: skip
