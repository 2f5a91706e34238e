"""The shipped models and the importer judge each other: both tell the same layers of every configuration."""

from configurations import IDS, OTHER_TOTALS, imported_fixture, layers
from every_case import each

from roofline.catalog import find as reader
from roofline.catalog.files import shipped_entries
from roofline.physics.memory import parameters
from roofline.specs.build import model_record

#: Models whose configurations the importer refuses: its families are those that Hugging Face hosts today.
WRITTEN_BY_HAND = {
    "EleutherAI/gpt-j-6b",
    # from copies of configurations that their files cite, none of which is kept here
    "MiniMaxAI/MiniMax-M2.7", "moonshotai/Kimi-K2-Instruct", "Qwen/Qwen3-235B-A22B-Thinking-2507",
    "Qwen/Qwen3-30B-A3B-Thinking-2507", "Qwen/Qwen3-VL-30B-A3B-Instruct", "Qwen/Qwen3-VL-32B-Instruct",
    "Qwen/Qwen3.5-122B-A10B", "XiaomiMiMo/MiMo-V2-Flash", "zai-org/GLM-4.5-Air",
}  # fmt: skip


def shipped(model_id):
    return reader.document(model_id, "model")


def formats(content):
    """Formats with float16 as bf16: both take two bytes and run at one rate, and the catalog lists one of them."""
    native = model_record(content).native
    sections = (
        native if any(ffn["kind"] == "moe" for _, ffn in layers(content)) else set(native) - {"router", "experts"}
    )
    return {section: native[section].replace("fp16", "bf16") for section in sections}


@each("model_id", IDS, few=25)
def test_a_shipped_file_says_what_the_importer_reads_what_the_layers_miss_and_where_it_was_read(model_id):
    read, content = imported_fixture(model_id), shipped(model_id)
    assert layers(content) == layers(read)
    for field in ("hidden", "vocab", "tied"):
        assert content[field] == read[field]
    for field in ("norms", "norm_bias", "head_bias", "streams", "parallel"):
        assert getattr(model_record(content), field) == getattr(model_record(read), field)
    assert model_record(content).mtp_layers == model_record(read).mtp_layers
    assert formats(content) == formats(read)
    content = shipped(model_id)
    total = content["parameters"]["total"]
    model = reader.load_model(model_id)
    gap = abs(parameters(model).total / model.stated_total - 1.0)
    assert (gap > 0.01) == (model_id in OTHER_TOTALS)
    assert gap == 0.0 or total["note"]
    source = content["architecture"]["source"]
    assert content["sources"][source]["url"].startswith("https://")
    assert (
        content["architecture"].get("confidence")
        or "copy" in content["sources"][source]["title"]
        or (content["architecture"]["source"] in ("config-copy", "litgpt-config"))
    )
    figures = content["parameters"]
    assert "active" in figures or not reader.load_model(model_id).is_moe or "Gemma" in model_id


def test_every_configuration_has_a_file_of_its_own_and_every_file_but_those_by_hand_a_configuration():
    with_configuration = {reader.load_model(model_id).name for model_id in IDS}
    assert len(with_configuration) == len(IDS) == len(shipped_entries("model")) - len(WRITTEN_BY_HAND)
    for model_id in WRITTEN_BY_HAND:
        assert reader.load_model(model_id).name not in with_configuration


def test_the_layers_of_gpt_j_add_up_to_its_matrices_biases_and_norms():
    # 28 layers: q, k, v, o of 4096 x 4096, two matrices of 4096 x 16384 with biases, one norm with a bias;
    # embedding and head of 50400 rows, the head with a bias, a last norm with a bias.
    layer = 4 * 4096**2 + 2 * 4096 * 16384 + 16384 + 4096 + 2 * 4096
    total = 28 * layer + 2 * 50400 * 4096 + 50400 + 2 * 4096
    assert parameters(reader.load_model("gpt-j-6b")).total == total


@each(
    ("spelling", "name"),
    [
        ("meta-llama/Meta-Llama-3.1-70B", "meta-llama/Llama-3.1-70B"),
        ("llama-3.1-70b-instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("Llama-3.3-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek-ai/DeepSeek-V3"), ("deepseek-v3.2", "deepseek-ai/DeepSeek-V3.2"),
        ("qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct"), ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("mistral-7b", "mistralai/Mistral-7B-v0.1"), ("kimi-k2.5", "moonshotai/Kimi-K2.5"),
        ("qwen3.8-2.4t", "Qwen/Qwen3.8-2.4T-A95B"), ("muse-spark", "meta-models/Muse-Spark-Open-816B-A42B"),
        ("hunyuan-a52b", "tencent/Hunyuan-A52B-Instruct"),
    ],
)  # fmt: skip
def test_a_model_answers_to_its_usual_spellings(spelling, name):
    assert reader.load_model(spelling).name == name
