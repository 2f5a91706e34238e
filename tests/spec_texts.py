"""Texts of specifications of one's own, whole and damaged, for the tests of this folder."""

import re

GPU = """\
name: my-gpu
aliases: [mine, my-gpu-96gb]
vendor: Acme
generation: hopper
peak:
  bf16: {value: 1000 TFLOP/s, source: sheet}
  fp8: {value: 2000 TFLOP/s, source: sheet}
exp_per_s: {value: 4 Texp/s, source: sheet}
memory:
  label: {value: 96 GB, source: sheet}
  usable: {value: 94 GiB, source: sheet}
  bandwidth: {value: 4 TB/s, source: sheet}
scale_up:
  kind: nvlink4
  bandwidth: {value: 450 GB/s, source: sheet}
  domain: {value: 8, source: sheet}
  in_switch_reduction: {value: true, source: sheet}
scale_out:
  bandwidth: {value: 400 Gbit/s, source: sheet}
power: {value: 700 W, source: sheet}
price: {low: 1 USD/h, typical: 2 USD/h, high: 3 USD/h, source: sheet}
sources:
  sheet:
    title: Acme data sheet
    date: 2026-01-02
notes:
  - prototype
"""

MODEL = """\
name: acme/Tiny-1B
aliases: [tiny-1b, acme/Tiny-1B-Instruct]
family: tiny
hidden: 2048
vocab: 32000
tied: false
norms: 2
max_context: 8192
groups:
  - repeat: 12
    mixer: {kind: gqa, heads: 16, kv_heads: 4, head_dim: 128}
    ffn: {kind: dense, width: 8192, gated: true}
  - repeat: 2
    pattern:
      - mixer: {kind: mla, heads: 16, q_rank: 512, kv_rank: 256, nope: 64, rope: 32, v: 64}
        ffn: {kind: moe, experts: 16, top_k: 2, width: 1024, shared_width: 1024}
      - mixer: {kind: gqa, heads: 16, kv_heads: 4, head_dim: 128, window: 1024}
        ffn: {kind: dense, width: 8192}
native: {linear: bf16, experts: fp8_block, embed: bf16, head: bf16, router: bf16, norm: bf16, kv: bf16}
parameters:
  total: {value: 1.2 B, source: card}
architecture: {source: card}
sources:
  card:
    title: Acme model card
    date: 2026-01-02
"""

FULL_GPU = """\
name: my-gpu
aliases: [mine]
vendor: Acme
generation: acme-1
status: pre-release
form_factor: OAM
compute_capability: gfx942
peak:
  fp32: {value: 60 TFLOP/s, source: sheet}
  tf32: {value: 500 TFLOP/s, source: sheet}
  bf16: {value: 1000 TFLOP/s, source: sheet, note: measured}
  fp16: {value: 1000 TFLOP/s, source: sheet}
  fp8: {value: 2000 TFLOP/s, source: sheet}
  int8: {value: 2000 TOP/s, source: sheet}
  fp6: {value: 4000 TFLOP/s, source: sheet, confidence: low}
  fp4: {value: 4000 TFLOP/s, source: sheet}
  int4: {value: 4000 TOP/s, source: sheet}
exp_per_s: {value: 4 Texp/s, source: sheet}
cores: {value: 128, source: sheet}
clock: {value: 2 GHz, source: sheet}
cache: {value: 256 MB, source: sheet, note: last level}
memory:
  kind: HBM3
  label: {value: 96 GB, source: sheet}
  usable: {value: 94 GiB, source: device}
  bandwidth: {value: 4 TB/s, source: sheet}
scale_up:
  kind: fabric
  topology: mesh
  bandwidth: {value: 448 GB/s, source: sheet}
  peer_bandwidth: {value: 64 GB/s, source: sheet}
  domain: {value: 8, source: sheet}
  in_switch_reduction: {value: false, source: sheet}
scale_out:
  bandwidth: {value: 400 Gbit/s, source: sheet}
host_link:
  bandwidth: {value: 63 GB/s, source: sheet}
power: {value: 700 W, source: sheet}
price: {low: 1 USD/h, typical: 2 USD/h, high: 3 USD/h, source: sheet, confidence: low, note: asked}
sources:
  sheet: {title: Acme data sheet, url: "https://acme.example", date: 2026-01-02}
  device: {title: Acme node, date: 2026-01-02}
notes: [prototype, second]
"""

MIXED_MODEL = """\
name: acme/Tiny-1B
aliases: [tiny-1b]
family: tiny
hidden: 1024
vocab: 32000
tied: true
norms: 2
norm_bias: true
head_bias: true
streams: 4
max_context: 8192
groups:
  - repeat: 2
    mixer:
      {kind: mla, heads: 16, q_rank: 512, kv_rank: 256, nope: 64, rope: 32, v: 64, out_gate: true,
       indexer: {heads: 4, dim: 64, top_k: 512}}
    ffn: {kind: moe, experts: 16, top_k: 2, width: 512, shared_width: 512, shared_gate: true, latent: 256}
  - repeat: 1
    mixer:
      {kind: csa, heads: 16, head_dim: 64, q_rank: 256, o_rank: 128, o_groups: 4, window: 128, ratio: 4,
       indexer: {heads: 4, dim: 64, top_k: 512}}
    ffn: {kind: dense, width: 2048, bias: true, gated: false}
  - repeat: 2
    pattern:
      - mixer: {kind: gdn, k_heads: 4, v_heads: 8, k_dim: 64, v_dim: 64, conv: 4}
        ffn: {kind: moe, experts: 8, top_k: 2, width: 512, router_bias: true, expert_bias: true}
      - mixer: {kind: kda, heads: 8, dim: 64, conv: 4, full_rank_gate: true}
        ffn: {kind: dense, width: 2048}
      - mixer: {kind: lightning, heads: 8, dim: 64}
        ffn: {kind: dense, width: 2048}
      - mixer: {kind: mamba1, inner: 2048, state: 16, dt_rank: 64, conv: 4, inner_norms: true}
        ffn: {kind: none}
      - mixer: {kind: mamba2, heads: 32, head_dim: 64, groups: 4, state: 64, conv: 4}
        ffn: {kind: none}
      - mixer: {kind: linear}
        ffn: {kind: linear}
      - mixer: {kind: none}
        ffn: {kind: dense, width: 2048}
      - mixer: {kind: gqa, heads: 16, kv_heads: 4, head_dim: 64, qk_norm: full, sinks: true, k_eq_v: true, chunk: 512}
        ffn: {kind: dense, width: 2048}
mtp: {layers: 1}
native: {linear: bf16, attention: fp8_block, shared: bf16, experts: nvfp4, embed: bf16, head: bf16, kv: fp8}
parameters:
  total: {value: 0.2 B, source: card, note: not the sum}
  active: {value: 0.1 B, source: card, note: not the sum, convention: all}
architecture: {source: card, confidence: medium}
sources:
  card: {title: Acme model card, date: 2026-01-02}
"""

CALIBRATION = """\
name: hopper
measured_on: [my-gpu]
kernels:
  gemm:
    bf16: {t0: 3 us, eta_c: 0.5, eta_m: 0.5, source: bench}
  attention_prefill:
    bf16: {t0: 3 us, eta_c: 0.5, eta_m: 0.5, source: bench}
  attention_decode:
    bf16: {t0: 3 us, eta_c: 0.5, eta_m: 0.5, source: bench}
  mla_prefill:
    bf16: {t0: 3 us, eta_c: 0.5, eta_m: 0.5, source: bench}
  mla_decode:
    bf16: {t0: 3 us, eta_c: 0.5, eta_m: 0.5, source: bench}
  moe:
    bf16: {t0: 3 us, eta_c: 0.5, eta_m: 0.5, source: bench}
  elementwise:
    bf16: {t0: 3 us, eta_c: 0.5, eta_m: 0.5, source: bench}
collectives:
  all_reduce: {a0: 5 us, eta: 0.5, source: bench}
sources:
  bench:
    title: Acme benchmark
    date: 2026-01-02
"""

ENGINE = """\
name: acme-serve
aliases: [acme]
title: "Acme Serve"
versions: "Acme 1.2"
year: 2026
request: 5 ms
prefill: 200 us
prefill_slowdown: 1.1
step: 0.5 ms
sequence: 10 us
scheduler: prompts first
max_num_batched_tokens: 4096
max_num_seqs: 128
gpu_memory_utilization: 0.9
max_model_len: 65536
reserve: 0.5
sigma_tpot: 0.2
tunings:
  - {kind: gemm, dtype: bf16, generation: hopper, compute: 0.9}
  - {kind: attention_decode, memory: 0.8}
start_up:
  - {before: "1.0", fixed: 0.1 GiB}
  - {driver: 0.5 GiB, fixed: 0.2 GiB, sampler: 2, graph: 0.1 MiB}
sources:
  bench: {title: Acme benchmark, date: 2026-01-02}
"""

WORKLOAD = """\
name: my-support
aliases: [support]
title: "Our support chat"
isl: 1800
osl: 240
isl_cv: 0.9
osl_cv: 0.5
lengths: lognormal
prefix: 600
slo: "ttft:1s,tpot:50ms"
share: 0.95
arrivals: users
waits_for: whole answer
notes:
  - "prefix is a judgement: the system prompt."
sources:
  logs: {title: "Our gateway", url: "https://acme.example/logs", date: 2026-10-08}
"""


def every_fault(*rows):
    """Rows (what is replaced, where a fault is told, its words, by what, ...) as one (old, new, where, words) each."""
    return [(old, new, where, words) for old, where, words, *wrong in rows for new in wrong]


def wrong_values(text, said):
    """The same for lines of a text that have another value: words of the fault -> those lines, told by their keys."""
    lines = {line.partition(":")[0]: line for line in text.splitlines() if not line.startswith(" ")}
    rows = [(new.partition(":")[0], new, words) for words, wrong in said.items() for new in wrong]
    return [(lines[key], new, key, words) for key, new, words in rows]


def writer(folder, whole):
    """Writes a text into a folder, with replacements that it is called with, and gives its path."""

    def written(*changes, name="own.yaml"):
        text = whole
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (folder / name).write_text(text, encoding="utf-8")
        return str(folder / name)

    return written


def faults(error):
    """Lines of a `BadSpec` as (line number, text); fails where one is not file:line: text."""
    found = [re.fullmatch(r"(.+?):(\d+): (\S.*)", line) for line in str(error).split("\n")]
    assert all(found), f"not file:line: text: {str(error)!r}"
    return [(int(match[2]), match[3]) for match in found]


def line_of(text, part):
    """Number of the first line that holds a part, counted from one."""
    return text[: text.index(part)].count("\n") + 1


def paths(value, where=()):
    """Paths of all keys and positions of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*where, key)
        yield from paths(item, (*where, key))
