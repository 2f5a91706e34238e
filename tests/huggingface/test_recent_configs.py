"""Configurations with lookup memories, shared caches, selected blocks and relative attention: what is in doubt."""

from configurations import config_of, document, layers, model, refusal

from roofline.physics.memory import parameters

V41 = config_of("deepseek-ai/DeepSeek-V4.1-Flash")[0]
INKLING = config_of("thinkingmachines/Inkling")[0]
MISTRAL = config_of("mistralai/Mistral-Large-4-1T-A52B")[0]
MINICPM = config_of("openbmb/MiniCPM4.1-8B")[0]
LONGCAT = config_of("meituan-longcat/LongCat-Flash-Lite")[0]


def text(config, **changed):
    """The configuration with other fields of its text model; None leaves a field out."""
    fields = config.get("text_config", config) | changed
    fields = {name: value for name, value in fields.items() if value is not None}
    return config | {"text_config": fields} if "text_config" in config else fields


def test_what_layers_read_of_others_must_be_there():
    ratios = V41["text_config"]["compress_ratios"]
    for config, said in (
        (text(V41, compress_ratios=ratios[:3]), "has 3 entries for 40 layers"),
        (text(V41, kv_source_layer_ids=[8, 14, 20]), "reads what no layer before it computes"),
        (text(V41, kv_source_layer_ids=[2, 8, 14, 40]), "there is no layer 40"),
        (text(V41, compress_ratios=[4, *ratios[1:]]), "layer 0 reads what no layer before it computes"),
        (text(V41, engram_num_embeddings=None), "needed for the tables of engram_layer_ids"),
        (text(INKLING, d_rel=None), "d_rel: missing"),
        (text(MISTRAL, kv_source_layers=[1, *range(1, 72)]), "layer 0 must share with an earlier layer"),
        (text(MISTRAL, kv_source_layers=[0, 0, 1, *range(3, 72)]), "layer 2 must share with an earlier layer"),
        (text(MINICPM, sparse_config={"kernel_stride": 0}), "sparse_config.kernel_stride: 0 must be between"),
        (text(LONGCAT, ngram_vocab_size_ratio="x"), "ngram_vocab_size_ratio: 'x' must be a number"),
    ):
        assert said in refusal(config)


def test_what_a_configuration_leaves_out_is_left_out_of_the_model():
    assert "ngrams" not in document(text(V41, engram_layer_ids=[]))
    assert "ngrams" not in document(text(LONGCAT, ngram_vocab_size_ratio=None))
    plain = text(MINICPM, sparse_config=None)
    assert {mixer["kind"] for mixer, _ in layers(document(plain))} == {"gqa"}
    assert parameters(model(plain)) == parameters(model(MINICPM))  # a selection of blocks has none
