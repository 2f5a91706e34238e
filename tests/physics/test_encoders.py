"""Towers of images and audio: parameters as torch counts them, tokens as processors do, kernels by hand."""

import pytest
from conftest import deploy
from every_case import each

import roofline as rl
from roofline.catalog.huggingface.blocks import Fields
from roofline.catalog.huggingface.towers import encoders
from roofline.physics.encoders import encoder_bytes, encoder_kernels, encoder_time, encoder_workspace
from roofline.physics.media import RULES, media_of, part_of_audio, part_of_images, part_of_video, tokens_of_image
from roofline.physics.plan import Plan
from roofline.specs.build import model_record
from roofline.specs.media import Media, Part, Step, Tower
from roofline.support.records import replace

#: Short name -> parameters of tower and projector that torch 2.13 counts on the meta device for the class of
#: transformers 5.23; Kimi-K3, which has none there, by hand from its config.json and its checkpoint's projector.
COUNTED = {
    "qwen3-vl-2b": 406_957_056, "qwen3-vl-4b": 415_347_712, "qwen3-vl-8b": 576_388_336, "qwen3-vl-32b": 595_266_800,
    "qwen3-vl-30b-a3b": 538_631_408, "qwen3-vl-235b-a22b": 576_388_336, "qwen3.5-9b": 456_010_480,
    "qwen3.5-27b": 460_730_096, "qwen3.5-35b-a3b": 446_571_248, "qwen3.5-122b-a10b": 451_290_864,
    "qwen3.5-397b-a17b": 456_010_480, "qwen3.6-27b-nvfp4": 460_730_096, "qwen3.6-35b-a3b-nvfp4": 446_571_248,
    "qwen3.8-27b": 460_730_096, "gemma-3-4b": 419_816_304, "gemma-3-27b": 423_060_336, "gemma-4-26b-a4b": 572_792_112,
    "gemma-4-31b-nvfp4": 575_741_232, "llama-4-scout": 871_932_416, "llama-4-maverick": 871_932_416,
    "mistral-small-4-119b": 428_472_320, "kimi-k2.5": 471_143_920, "kimi-k2.6-nvfp4": 471_143_920,
    "glm-5.3-flash": 563_627_008, "muse-glimmer-30b": 1_921_845_760, "minimax-m3": 865_567_232,
    "lfm2.5-vl-1.6b": 426_294_512,
    "kimi-k3": 27 * (4 * 1024 * 1536 + 2 * 1024 * 4096 + 2 * 1024) + (3 * 14 * 14 + 64 * 64 + 1) * 1024
    + 4096 * 4096 + 4096 * 7168 + 7168,
}  # fmt: skip

_SIGLIP = {"hidden_size": 1152, "num_hidden_layers": 27, "num_attention_heads": 16, "intermediate_size": 4304}
_WHISPER = {"num_mel_bins": 128, "max_source_positions": 1500}
#: Configurations of towers that no shipped model has, the width of the model, and what torch counts.
READ = {
    "qwen2.5-vl-7b": (
        {"vision_config": {
            "model_type": "qwen2_5_vl", "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
            "out_hidden_size": 3584, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
        }}, 3584, 676_550_144),
    "internvl3-2b": (
        {"model_type": "internvl", "vision_config": {
            "model_type": "internvl_vision", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
            "intermediate_size": 4096, "image_size": [448, 448], "patch_size": [14, 14],
        }}, 3584, 331_479_040),
    "voxtral-mini-3b": (
        {"model_type": "voxtral", "audio_config": {
            **_WHISPER, "model_type": "voxtral_encoder", "hidden_size": 1280, "intermediate_size": 5120,
            "num_hidden_layers": 32, "num_attention_heads": 20,
        }}, 3072, 662_134_784),
    "qwen2-audio-7b": (
        {"model_type": "qwen2_audio", "audio_config": {
            **_WHISPER, "model_type": "qwen2_audio_encoder", "d_model": 1280, "encoder_layers": 32,
            "encoder_attention_heads": 20, "encoder_ffn_dim": 5120,
        }}, 4096, 642_215_936),
    "gemma-3-4b": (
        {"model_type": "gemma3", "mm_tokens_per_image": 256, "vision_config": {
            **_SIGLIP, "model_type": "siglip_vision_model", "image_size": 896, "patch_size": 14,
        }}, 2560, 419_816_304),
}  # fmt: skip


def tower_of(name):
    (tower,) = rl.load_model(name).encoders
    return tower


def read(name):
    """The tower that a configuration describes."""
    config, text, _ = READ[name]
    (block,) = encoders(Fields(config, "config.json"), text)
    steps = {part: tuple(Step(**step) for step in block[part]) for part in ("stem", "projector")}
    return Tower(**{**block, **steps})


@each("name, count", COUNTED.items())
def test_a_shipped_tower_has_the_parameters_that_torch_counts(name, count):
    assert tower_of(name).parameters() == count


@each("name", READ)
def test_a_tower_of_a_configuration_has_the_parameters_that_torch_counts(name):
    assert read(name).parameters() == READ[name][2]


def test_with_their_towers_models_have_the_totals_that_their_makers_publish():
    for name, published in (("mistral-small-4-119b", 119.4e9), ("muse-glimmer-30b", 30e9), ("lfm2.5-vl-1.6b", 1.6e9)):
        model = rl.load_model(name)
        assert model.stated_total + tower_of(name).parameters() == pytest.approx(published, rel=0.01), name


def test_a_tower_that_is_not_known_is_left_out():
    config = {"vision_config": {"model_type": "someones_vision"}, "audio_config": "none"}
    assert encoders(Fields(config, "config.json"), 4096) == []
    assert encoders(Fields({"vision_config": {"model_type": "qwen3_vl"}}, "config.json"), 4096) == []  # no sizes


#: Model, width and height, tokens without markers: published, or worked out by hand.
PUBLISHED = [
    ("qwen3-vl-8b", 1024, 1024, 32 * 32),  # 16-pixel patches, four to a token (arXiv:2511.21631)
    ("qwen2.5-vl-7b", 1024, 1024, 37 * 37),  # 28 pixels a token, to the nearest (arXiv:2502.13923)
    ("gemma-3-27b", 1920, 1080, 256),  # whatever the image (arXiv:2503.19786)
    ("gemma-4-26b-a4b", 1024, 1024, 16 * 16),  # at most 280
    ("llama-4-scout", 336, 336, 144),  # a tile of 24 x 24 patches, four to a token
    ("llama-4-scout", 672, 336, 3 * 144),  # two tiles, and the whole image
    ("internvl3-2b", 448, 448, 256),  # a tile (arXiv:2412.05271)
    ("internvl3-2b", 896, 896, 5 * 256),  # 2 x 2 and a thumbnail
    ("lfm2.5-vl-1.6b", 512, 512, 256),
    ("mistral-small-4-119b", 1540, 1540, 55 * 55),
    ("kimi-k2.5", 1024, 1024, 37 * 37),  # padded to whole tokens
    ("minimax-m3", 1024, 1024, 24 * 24),  # at most 672 x 672
]


@each("name, width, height, tokens", PUBLISHED)
def test_an_image_has_the_published_tokens(name, width, height, tokens):
    tower = read(name) if name in READ else tower_of(name)
    grid = RULES[tower.rule](tower, width, height)
    assert (grid.tokens or grid.rows * grid.columns) == tokens


#: Width and height -> tokens by rule, as the image processors of transformers 5.23 count them; of squares between two
#: grids, Muse-Glimmer's takes either, by the order of a set.
PROCESSED = {
    (3491, 3306): {"area": 11227, "canvas": 7917, "native": 4158, "aspect": 4030, "budget": 272, "longest": 2915,
                   "canvases": 2448, "thumbnail": 2544},
    (3148, 278): {"area": 882, "canvas": 1130, "native": 1130, "aspect": 1130, "budget": 224, "longest": 275,
                  "canvases": 1584, "thumbnail": 2772},
    (1064, 502): {"area": 528, "canvas": 684, "native": 684, "aspect": 684, "budget": 264, "longest": 684,
                  "canvases": 1296, "thumbnail": 742},
    (965, 2792): {"area": 2610, "canvas": 3500, "native": 3500, "aspect": 3366, "budget": 252, "longest": 1045,
                  "canvases": 1872, "thumbnail": 1011},
    (2975, 2975): {"area": 8649, "canvas": 7921, "native": 4225, "aspect": 4096, "budget": 256, "longest": 3025,
                   "canvases": 2448, "thumbnail": 2560},
    (124, 124): {"area": 64, "canvas": 25, "native": 25, "budget": 256, "longest": 25, "canvases": 144,
                 "thumbnail": 64},
}  # fmt: skip
_OF_RULE = {
    "area": "qwen3-vl-8b", "canvas": "glm-5.3-flash", "native": "kimi-k2.5", "aspect": "muse-glimmer-30b",
    "budget": "gemma-4-26b-a4b", "longest": "mistral-small-4-119b", "canvases": "llama-4-scout",
    "thumbnail": "lfm2.5-vl-1.6b",
}  # fmt: skip


@each("size", PROCESSED)
def test_an_image_has_the_tokens_of_the_models_processor(size):
    for rule, tokens in PROCESSED[size].items():
        grid = RULES[rule](tower_of(_OF_RULE[rule]), *size)
        assert (grid.tokens or grid.rows * grid.columns) == tokens, rule


def test_markers_are_counted_around_images_behind_rows_and_between_tiles():
    assert tokens_of_image(tower_of("qwen3-vl-8b"), 1024, 1024) == 1024 + 2
    assert tokens_of_image(tower_of("mistral-small-4-119b"), 1540, 1540) == 55 * 55 + 55
    assert tokens_of_image(tower_of("llama-4-scout"), 672, 336) == 3 * 144 + 3 + 2
    pixtral = replace(tower_of("mistral-small-4-119b"), patch=16, merge=1, side=1024)  # Pixtral-12B, arXiv:2410.07073
    assert tokens_of_image(pixtral, 1024, 1024) == 64 * 64 + 64


def test_frames_of_a_video_are_merged_as_the_model_does():
    merged, joint, fixed = map(tower_of, ("qwen3-vl-8b", "kimi-k2.5", "gemma-4-26b-a4b"))
    assert part_of_video(merged, 8, 1024, 1024)[1:4] == (4, 4096, 4 * 1024)  # two frames to a patch
    assert part_of_video(merged, 7, 1024, 1024).sequences == 4
    image = part_of_images(joint, 1, 1024, 1024)
    assert part_of_video(joint, 8, 1024, 1024)[1:4] == (2, 4 * image.patches, 2 * image.merged)  # four attend together
    assert part_of_video(fixed, 2, 1024, 1024).merged <= 2 * 70


def test_whisper_has_1500_frames_for_30_seconds_and_its_models_their_tokens():
    voxtral, qwen = read("voxtral-mini-3b"), read("qwen2-audio-7b")
    assert part_of_audio(voxtral, 30.0)[1:4] == (1, 1500, 375)  # 12.5 a second, arXiv:2507.13264
    assert part_of_audio(voxtral, 31.0)[1:4] == (2, 1500, 750)  # filled up
    assert part_of_audio(qwen, 10.0).merged == 250  # 40 ms each, arXiv:2407.10759
    assert part_of_audio(qwen, 30.0).merged == 750


TOWER = Tower(
    hidden=64, layers=2, heads=4, width=256, layer_vectors=100, vectors=1000, stem=(Step(48, 64),),
    projector=(Step(256, 256), Step(256, 32)), rule="area", patch=4, merge=2, min_pixels=64, max_pixels=4096,
)  # fmt: skip


def deployed(part, tp=1, basis="ideal"):
    """A deployment of which a request holds one part, on H100."""
    deployment = deploy("llama-3.1-8b", "h100-sxm", Plan(tp), basis=basis)
    model = replace(deployment.model, encoders=(part.tower,))
    return replace(deployment, model=model, media=Media((part,), 1))


def test_the_work_of_a_tower_is_that_of_its_matrices_and_of_every_pair_of_patches():
    part = part_of_images(TOWER, 3, 32, 16)
    assert part == Part(TOWER, 3, 32, 24, 24)
    kernels = encoder_kernels(deployed(part), 2.0)
    flop = sum(kernel.count * kernel.work.flop for kernel in kernels)
    patches, merged = 2 * 3 * 32, 2 * 24
    layer = 2 * patches * (4 * 64 * 64 + 2 * 64 * 256) + 4 * 64 * 2 * 3 * 32 * 32
    assert flop == 2 * layer + 2 * patches * 48 * 64 + 2 * merged * (256 * 256 + 256 * 32)
    (attention,) = (kernel for kernel in kernels if kernel.kind.name == "encoder_attention")
    assert attention.count == 2
    assert attention.work.exponentials == 4 * 2 * 3 * 32 * 32


def test_windows_attend_to_their_own_patches_alone():
    whole = deployed(part_of_images(TOWER, 1, 64, 64))
    cut = deployed(part_of_images(replace(TOWER, window=64, full_layers=1), 1, 64, 64))
    pairs = [
        sum(k.count * k.work.exponentials for k in encoder_kernels(each, 1.0)) / TOWER.heads for each in (whole, cut)
    ]
    assert pairs == [2 * 256 * 256, 256 * 256 + 256 * 64]


def test_tensor_parallelism_shards_weights_and_pads_heads():
    part = part_of_images(TOWER, 1, 64, 64)
    one, eight = deployed(part), deployed(part, tp=8)
    stem = 48 * 64
    replicated = stem + 2 * 100 + 1000
    assert encoder_bytes(one) == 2 * TOWER.parameters()
    assert encoder_bytes(eight) == 2 * ((TOWER.matrices - stem) / 8 + replicated)
    (attention,) = (k for k in encoder_kernels(eight, 1.0) if k.kind.name == "encoder_attention")
    assert attention.work.exponentials == 256 * 256  # one head of four, on eight ranks
    assert any(k.kind.name == "all_reduce" for k in encoder_kernels(eight, 1.0))
    assert encoder_workspace(eight) < encoder_workspace(one)


def test_no_encoder_is_faster_than_the_hardware_allows_and_more_pixels_take_longer():
    for name in ("qwen3-vl-8b", "gemma-4-26b-a4b", "llama-4-scout", "kimi-k2.5"):
        times = []
        for side in (224, 512, 1024, 2048):
            media = media_of((tower_of(name),), 1, (side, side), 0, 0.0)
            real = replace(deploy(name, "b200", Plan(8)), media=media)
            ideal = encoder_time(real.on("ideal"), 1.0)
            assert 0.0 < ideal <= encoder_time(real, 1.0), name
            times.append(ideal)
        assert times == sorted(times), name


def test_two_requests_take_twice_the_arithmetic_and_none_is_none():
    one = deployed(part_of_images(TOWER, 1, 64, 64))
    single, double = (sum(k.count * k.work.flop for k in encoder_kernels(one, n)) for n in (1.0, 2.0))
    assert double == 2 * single
    text = replace(one, media=None)
    assert encoder_kernels(text, 1.0) == ()
    assert encoder_time(text, 1.0) == encoder_bytes(text) == encoder_workspace(text) == 0.0


def test_a_specification_round_trips_its_towers():
    document = {
        "name": "a/b", "aliases": ["b"], "hidden": 64, "vocab": 10, "tied": True,
        "groups": [{"repeat": 1, "mixer": {"kind": "gqa", "heads": 1, "kv_heads": 1, "head_dim": 64},
                    "ffn": {"kind": "dense", "width": 64}}],
        "encoders": [{"kind": "audio", "hidden": 8, "layers": 1, "heads": 1, "width": 8, "rule": "padded", "chunk": 30,
                      "rate": 50, "stem": [{"inner": 3, "outer": 8}], "projector": [{"inner": 8, "outer": 64}],
                      "source": "config"}],
    }  # fmt: skip
    (tower,) = model_record(document).encoders
    assert (tower.kind, tower.chunk, tower.stem) == ("audio", 30.0, (Step(3, 8),))
