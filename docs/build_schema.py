"""Writes docs/schema/*.schema.json, the types of rows and the glossary of their keys: python docs/build_schema.py.

Editors check specifications with the schemas; output.schema.json is what `--format json` prints. The keys of rows are
stated once, beside the answer that they are read from.

python docs/build_schema.py --check    # fails where a file is stale
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from roofline.catalog.checks import SCHEMAS
from roofline.catalog.entries import FIGURE_KEYS
from roofline.formulas.closed import FORMULA_KEYS
from roofline.formulas.sensitivity import SENSITIVITY_KEYS
from roofline.numbers.quantity import DIMENSIONS
from roofline.outputs.files import SCHEMA_VERSION
from roofline.questions.budgets import BUDGET_KEYS
from roofline.questions.cache import CACHE_KEYS
from roofline.questions.check import CHECK_KEYS, PART_KEYS, SUSPECT_KEYS
from roofline.questions.compare import BASELINE_KEYS, QUANTIZED_KEYS
from roofline.questions.cost import COST_KEYS
from roofline.questions.curve import CURVE_KEYS
from roofline.questions.disaggregate import POOL_KEYS
from roofline.questions.fits import FIT_KEYS
from roofline.questions.goodput import GOODPUT_KEYS
from roofline.questions.levers import GOAL_KEYS, LEVER_KEYS
from roofline.questions.listing import GPU_KEYS, MODEL_KEYS, WORKLOAD_KEYS
from roofline.questions.pareto import PARETO_KEYS
from roofline.questions.predict import KERNEL_KEYS
from roofline.questions.ranking import GPU_PLAN_KEYS
from roofline.questions.reducers import REDUCED_KEYS
from roofline.questions.simulate import SIMULATED_KEYS
from roofline.questions.speculate import SPECULATION_KEYS
from roofline.questions.sweeps import LINE_KEYS, POINT_KEYS, SWEEP_KEYS
from roofline.questions.why import solution_keys
from roofline.serving.comparison import COMPARED_KEYS, DIFFERENCE_KEYS
from roofline.serving.shown import KEYS
from roofline.specs.formats import PEAKS
from roofline.specs.keys import SHARED, Key, Keys
from roofline.specs.workload import LATENCIES

FOLDER = Path(__file__).with_name("schema")
GLOSSARY = FOLDER.with_name("glossary.md")
TYPES = FOLDER.parents[1] / "roofline" / "serving" / "row_types.py"
_TITLES = {
    "gpu": "GPU specification",
    "model": "Model specification",
    "calibration": "Calibration of a generation",
    "engine": "Engine profile",
    "workload": "Named workload",
    "arguments": "Arguments of an engine's server",
}
_NUMBER = r"\s*\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*"
_COUNT = r"^\s*\d+(?:\.\d+)?\s*[KMBT]\s*$"
_DATE = r"^\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$"

# How pydantic writes a limit that it checks after a conversion -> how JSON Schema does.
_LIMITS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
_EXAMPLES = {
    "FLOP/s": "989.4 TFLOP/s",
    "B": "79.65 GiB",
    "B/s": "3.35 TB/s",
    "exp/s": "3.87 Texp/s",
    "W": "700 W",
    "Hz": "1830 MHz",
    "USD/s": "2.95 USD/h",
    "s": "3.3 us",
}

# Field -> what an editor says about it; `Definition.field` where a name has two meanings.
_DESCRIPTIONS = {
    # any file
    "name": "Canonical name: of a GPU in lower case with hyphens, of a model its Hugging Face id.",
    "aliases": "Further names that look-up takes; no two entries may share one. A model's first is its short name.",
    "sources": "Where the figures come from: a key that they cite, with title, address and date.",
    "notes": "What a reader of the figures should know, one sentence each.",
    "source": "Key of the source, as listed under `sources`.",
    "note": "How the figure was worked out, or why it is unusual.",
    "confidence": "How sure the figure is; leave out where the source is the vendor or a device.",
    "Source.title": "What the source is: document, page, repository path with commit.",
    "Source.url": "Its address.",
    "Source.date": "Its date, or the day on which it was read: 2026-11-21, 2026-11 or '2026'.",
    "value": "Number with its unit, as the source states it.",
    "Integer.value": "A whole number.",
    "Flag.value": "true or false.",
    "Parameters.value": "A whole number, or a text such as 8.03 B.",
    # GPUs
    "vendor": "Who makes it.",
    "generation": "Architecture in lower case; decides which measured efficiencies it inherits.",
    "status": "Whether it can be bought.",
    "form_factor": "Module or card, e.g. SXM5, OAM, PCIe.",
    "compute_capability": "What compilers call the architecture, e.g. 9.0 or gfx942.",
    "peak": "Dense tensor-core rate by dtype, never a 2:4 sparse one.",
    "exp_per_s": "Rate of the special-function units, which the softmax of attention needs.",
    "cores": "Streaming multiprocessors, compute units or tensor cores.",
    "clock": "Clock at which the peaks are stated.",
    "cache": "Last-level cache.",
    "memory": "High-bandwidth memory of one GPU.",
    "KernelOverride.start": "Time beyond `t0` of each kernel.",
    "KernelOverride.note": "What a reader of any figure that it changes should know.",
    "runs": "Engine and version whose kernels it runs, such as `vllm@0.19`; left out: those of the engine of its name.",
    "overlaps": "Parts of a layer that run on a second stream, where other kernels hide their start.",
    "Memory.kind": "Its technology, e.g. HBM3.",
    "label": "Capacity as sold; vendors mean GB or GiB.",
    "usable": "What the driver reports, in GiB where it says MiB.",
    "Memory.bandwidth": "Rate of the memory.",
    "unified": "Whether CPU and GPU share this memory; `usable` is then what the GPU may take.",
    "scale_up": "The fabric that one group of GPUs shares, PCIe where there is none; left out: a machine works alone.",
    "Link.kind": "Its name, e.g. nvlink4, infinity-fabric, pcie.",
    "topology": "How the GPUs are wired.",
    "Link.bandwidth": "Per direction and GPU: half of what data sheets call bidirectional.",
    "peer_bandwidth": "Per direction to one peer, where a mesh splits the rate over its links.",
    "domain": "GPUs that reach each other at this rate.",
    "in_switch_reduction": "Whether the switch adds up (SHARP).",
    "scale_out": "Network of one GPU.",
    "host_link": "Link of one GPU to the host.",
    "Network.bandwidth": "Per direction and GPU.",
    "HostLink.bandwidth": "Per direction and GPU.",
    "HostLink.domain": "Cards of a host that reach each other over it, where a bridge joins fewer.",
    "sustained": "What clocks under load leave of the peaks, relative to the GPU whose efficiencies this one inherits.",
    "Ratio.value": "Its share of the peak over that GPU's share of its own, in one benchmark; may exceed 1.",
    "other_nodes": "Names of the catalog that are this GPU in nodes with another scale-up domain.",
    "power": "Board power.",
    "price": "Rental price of one GPU.",
    "low": "Lowest price seen.",
    "typical": "Price that costs are worked out with.",
    "high": "Highest price seen.",
    # models
    "family": "Line of models that it belongs to, e.g. llama.",
    "hidden": "Width of the residual stream.",
    "vocab": "Rows of the embedding as stored, padding included.",
    "tied": "Whether the head shares the embedding matrix.",
    "norms": "Norms of the hidden width per layer.",
    "parallel": "Whether a layer's mixer and network read the same input, so that one all-reduce sums both.",
    "norm_bias": "Whether norms have a bias vector beside their weights.",
    "norm_weights": "Whether norms have parameters.",
    "final_norms": "Norms of the hidden width outside the layers: the last one, and one behind the embedding.",
    "positions": "Rows of a table of learned positions; 0 for none.",
    "layer_input": "Width of what is looked up for a token anew in every layer; 0 for nothing.",
    "layer_vocab": "Rows of the table of it.",
    "altup": "Alternating streams, of which a layer updates one; 0 for none.",
    "laurel": "Rank of a residual connection that is learnt; 0 for none.",
    "head_bias": "Whether the head has a bias vector.",
    "streams": "Residual streams that hyper-connections mix.",
    "max_context": "Longest sequence [tokens].",
    "groups": "The layers, as runs of identical layers or blocks of layers.",
    "repeat": "How often the layer or the block occurs.",
    "mixer": "What mixes tokens: attention of a kind, or a recurrence.",
    "ffn": "Feed-forward network of the layer.",
    "pattern": "Block of layers that repeats, in the place of one mixer and ffn.",
    "kind": "Which one; decides the other fields.",
    "heads": "Heads of queries.",
    "kv_heads": "Heads of keys and values; divides `heads`.",
    "head_dim": "Width of a head.",
    "v_head_dim": "Width of a head of values, where it is not `head_dim`.",
    "window": "Tokens that a token sees, itself included.",
    "chunk": "Length of the chunks of which a token sees its own only [tokens].",
    "qkv_bias": "Whether the projections of queries, keys and values have biases.",
    "o_bias": "Whether the output projection has a bias.",
    "qk_norm": "Norm of queries and keys: one vector for all heads, or one over all of them.",
    "sinks": "Whether each head has a learnt logit.",
    "out_gate": "Whether the output is multiplied with a gate as wide as itself.",
    "head_gate": "Whether the output of each head is multiplied with one value.",
    "qk_norm_bias": "Whether the norms of queries and keys have biases.",
    "kv_shared": "Whether keys and values are those of an earlier layer, which caches them.",
    "k_eq_v": "Whether keys are values.",
    "indexer": "Small attention that chooses what the attention proper reads.",
    "Indexer.heads": "Heads of the indexer.",
    "dim": "Width of a head.",
    "top_k": "Tokens or entries that a token attends to at most.",
    "block": "Tokens kept or dropped together.",
    "own": "Whether the layer has an indexer; false where another layer's choice holds.",
    "Indexer.ratio": "Tokens whose index keys are pooled into one.",
    "candidates": "Entries that an earlier layer's indexer pre-selected, the only ones that are scored; 0: all.",
    "extent": "Tokens back to which scores have a bias of their distance; without a rank, buckets of distances.",
    "Relative.rank": "Values per head by which a token mixes profiles of that bias; 0: one table for all tokens.",
    "Relative.conv": "Tokens that the short convolutions of keys and values span; 0 for none.",
    "conv_out": "Channels of such convolutions over the outputs of mixer and network, both together.",
    "pair_keys": "Whether a distance has a key of its own, which queries multiply too.",
    "Blocks.block": "Tokens of a block.",
    "Blocks.top_k": "Blocks that a token attends to at most, the last ones among them.",
    "stride": "Tokens from one pooled key to the next.",
    "dense": "Tokens up to which a context is attended to whole; 0: blocks are always selected.",
    "Csa2.kv_shared": "Whether entries and index keys are those of an earlier layer, which caches them.",
    "Csa2.packed": "Whether entries and index keys are kept in FP4, whatever the format of the cache.",
    "last": "Last tokens of a prompt that the layer computes; 0: all.",
    "log_scale": "Whether queries are scaled by the logarithm of their position, with two values per head.",
    "shared_scores": "Rows of the router for shared experts.",
    "keys": "Keys of each half of a query, whose pairs are the rows of the memory.",
    "MemoryFfn.heads": "Queries of a token.",
    "key_dim": "Values of a query, both halves together.",
    "MemoryFfn.top_k": "Rows that a head reads.",
    "MemoryFfn.width": "Values of a row.",
    "MemoryFfn.gated": "Whether the sum of the rows is gated by the input and projected back.",
    "MemoryFfn.shared": "Whether the rows are those of an earlier layer.",
    "Ngrams.norms": "Norms over all residual streams for each table.",
    "Ngrams.gated": "Whether rows become keys and a gated value; else they are projected and added to the input.",
    "Ngrams.packed": "Whether rows are kept in FP8 with a scale for each 32 values.",
    "learned_pool": "Whether a gate and position biases weigh pooled index keys, else their mean is taken.",
    "stream_rank": "Rank of the gate that mixes several residual streams; 0: their weights are one matrix.",
    "stream_average": "Whether several residual streams are averaged before the head, not weighted.",
    "encoders": "Towers that turn images or audio into tokens, in no total; text leaves them idle.",
    "Tower.kind": "What it encodes: vision or audio.",
    "Tower.hidden": "Width of the tower.",
    "layers": "Its layers.",
    "Tower.heads": "Heads of its attention, each with keys and values of its own.",
    "Tower.head_dim": "Width of a head; 0: `hidden` over `heads`.",
    "Tower.width": "Inner width of its networks.",
    "layer_vectors": "Biases and norm weights of a layer [values].",
    "vectors": "Biases, norm weights and positions outside the layers [values].",
    "stem": "Matrices from pixels or spectra to patches or frames.",
    "projector": "Matrices from merged patches to the width of the model.",
    "Tower.window": "Patches that attend to each other in most layers; 0 for all.",
    "full_layers": "Layers without windows, where the others have them.",
    "rule": "How an image becomes patches, as the models' processors do it; for audio padded or unpadded.",
    "patch": "Side of a patch [pixels].",
    "merge": "Patches per token along each side; for audio, frames per token.",
    "min_pixels": "Area to which smaller images are enlarged [pixels].",
    "max_pixels": "Area to which larger images are shrunk [pixels].",
    "side": "Side of the image or of a tile, or limit of the longest side [pixels].",
    "least_tiles": "Fewest tiles of an image that is tiled.",
    "most_tiles": "Most tiles of an image, without its thumbnail.",
    "most_tokens": "Most tokens of an image; 0 where its pixels alone decide.",
    "extra_patches": "Patches that each image or tile has besides, such as a class token.",
    "frames": "Frames of a video that one patch spans.",
    "joint_frames": "Such spans that attend to each other and are averaged into one.",
    "frame_tokens": "Most tokens of one frame of a video; 0: those of an image.",
    "markers": "Tokens around an image, or around each span of frames.",
    "row_markers": "Tokens after each row of an image's tokens.",
    "tile_markers": "Tokens after each tile.",
    "Tower.chunk": "Audio that is encoded together [s].",
    "rate": "Frames of audio that the layers see per second [1/s].",
    "Step.inner": "Inputs of the matrix.",
    "outer": "Outputs of the matrix.",
    "Step.count": "Copies, each with weights of its own.",
    "Step.rows": "Rows that it multiplies, per patch in the stem, per merged token in the projector.",
    "ngrams": "Embeddings of hashed n-grams, looked up before some layers and added to all residual streams.",
    "rows": "Rows of all tables of n-grams together.",
    "Ngrams.width": "Values of a row.",
    "lookups": "Rows of a table that one token takes.",
    "tables": "Layers that have a table of n-grams.",
    "Ngrams.conv": "Tokens that the short convolution over what is looked up spans.",
    "q_rank": "Rank of the queries' latent; leave out where queries are projected directly.",
    "kv_rank": "Width of the latent of keys and values.",
    "nope": "Width of a head without positions.",
    "rope": "Width of a head with rotary positions, shared by all heads.",
    "v": "Width of a head of values.",
    "o_rank": "Rank of the output projection of each group of heads.",
    "o_groups": "Groups of heads of the output projection; divides `heads`.",
    "ratio": "Tokens that one compressed entry stands for; 0 for the window alone.",
    "k_heads": "Heads of keys; divides `v_heads`.",
    "v_heads": "Heads of values.",
    "k_dim": "Width of a head of keys.",
    "v_dim": "Width of a head of values.",
    "conv": "Width of the short convolution [tokens].",
    "full_rank_gate": "Whether the output gate is one matrix.",
    "full_rank_decay": "Whether the decay is one matrix.",
    "no_norm": "Whether the output has a gate alone, and no norm.",
    "ShortConv.width": "Channels, as many as the model is wide.",
    "CrossAttention.width": "Inner width of the layer's network.",
    "inner": "Channels.",
    "state": "Values of state per channel.",
    "dt_rank": "Rank of the time step's projection.",
    "inner_norms": "Whether time step, input and output matrices are normalised.",
    "Mamba2.groups": "Groups of heads that share input and output matrices; divides `heads`.",
    "width": "Inner width of the network or of one expert.",
    "gated": "Three matrices where true, else two.",
    "bias": "Whether its matrices have biases.",
    "experts": "Routed experts.",
    "MoeFfn.top_k": "Experts that a token uses.",
    "shared_width": "Inner width of the shared experts together; 0 for none.",
    "shared_gate": "Whether the shared experts' result has a gate of its own.",
    "router_bias": "Whether the router has a bias per expert.",
    "expert_bias": "Whether experts have biases.",
    "zero_experts": "Further choices of the router that return their input; `top_k` counts them.",
    "latent": "Width in which routed experts work, where it is not the model's.",
    "latent_norms": "Norms of that width.",
    "native": "Number formats of the checkpoint by section.",
    "linear": "Matrices that no other entry names.",
    "attention": "Matrices of the mixers.",
    "shared": "Shared experts.",
    "Native.experts": "Routed experts.",
    "embed": "Embedding.",
    "head": "Output head.",
    "router": "Routers.",
    "norm": "Norms and biases.",
    "kv": "KV cache.",
    "parameters": "Numbers of parameters as published.",
    "total": "All of them; compared with what the layers add up to.",
    "active": "Those that one token uses.",
    "convention": "What the active count leaves out beside idle experts.",
    "architecture": "Where the layers are described.",
    "mtp": "Draft modules for speculative decoding, in no total.",
    "Mtp.layers": "How many of them.",
    # engines
    "Engine.name": "Name of the profile, that of its file.",
    "Engine.title": "What it is called in full, and what it stands for.",
    "versions": "Of the engine that the constants were fitted on.",
    "year": "Of those versions.",
    "request": "Per request to an idle server, before its prompt is computed.",
    "arrival": "More per request that comes while others are decoded, times the square root of their number.",
    "handover": "Per request that goes from a prefill pool to a decode pool, beyond the transfer of its KV cache.",
    "network": "Round trip between client and server.",
    "prefill": "Per pass that computes prompts.",
    "launch": "Of the host per kernel of a pass over prompts alone: the pass takes at least that long.",
    "launch_decode": "Likewise per kernel of a decode step, where no CUDA graph replays it.",
    "prefill_slowdown": "Factor on the time of a prompt's steps while other requests decode.",
    "step": "Per decode step.",
    "layer": "Per layer of a decode step, where no CUDA graph replays it.",
    "sequence": "Per sequence of a decode step.",
    "all_reduce": "Per all-reduce, beyond its calibration.",
    "scheduler": "What a step computes where some requests decode and prompts wait: a token of each sequence first, "
    "and prompts with the rest of its tokens, or prompts alone.",
    "max_num_batched_tokens": "Tokens that one step computes at most; leave out for no limit.",
    "max_num_seqs": "Sequences that a data-parallel rank runs at most; leave out for no limit but memory.",
    "gpu_memory_utilization": "Share of the usable memory for weights, activations and KV cache.",
    "GpuDefault.value": "The default.",
    "GpuDefault.memory": "Memory of a GPU, from which on it holds; leave out for any.",
    "other_than": "Parts of the names of GPUs that it does not hold for.",
    "Argument.type": "Type of the value; a switch (bool) takes none, a switch with an opposite (bool-no) may be "
    "written --no-...",
    "Argument.aliases": "Further spellings.",
    "least": "Smallest value.",
    "most": "Largest value.",
    "human": "How a number with a suffix is read: k is 1000 and K is 1024 (letters), or k is 1000 and Ki is 1024 "
    "(binary).",
    "choices": "Values that versions take, by the first version.",
    "default": "Value where nothing is said, by the first version; null where it depends.",
    "since": "First version that knows it; leave out for the oldest that was read.",
    "until": "Last version that knows it; leave out for the newest.",
    "Arguments.versions": "Versions whose parser was read, the oldest first.",
    "arguments": "The arguments by their names.",
    "Arguments.title": "Name of the engine as its documentation writes it.",
    "before": "First version of the engine that it does not hold for; leave out for all.",
    "start_up": "How the engine divides the memory of a GPU when it starts; of several entries the first that holds.",
    "StartUp.share_of": "What gpu_memory_utilization is a share of: all of the card, what is free before the weights "
    "are loaded (free), or what is left after them and a pass (rest).",
    "StartUp.driver": "Memory that the driver keeps of what it reports.",
    "StartUp.padded_experts": "Multiple to which the widths of MXFP4 experts are padded.",
    "StartUp.context": "Memory taken before the engine counts: the CUDA context.",
    "StartUp.fixed": "Workspaces, and whatever else does not depend on the case.",
    "StartUp.linked": "Communication buffers of a replica of several GPUs.",
    "StartUp.activations": "Factor on the activations of the token budget.",
    "StartUp.sampler": "Copies of the logits in 32 bits, of max_num_seqs sequences.",
    "StartUp.table": "Copies of the embedding table in memory while the first start on a machine compiles.",
    "StartUp.graph": "CUDA graphs of one size, per layer.",
    "StartUp.counts_graphs": "Whether the KV cache leaves room for the CUDA graphs.",
    "StartUp.block": "Tokens of a block of the KV cache.",
    "StartUp.in_flight": "Steps that are scheduled together, whose tokens windowed layers keep.",
    "StartUp.even_groups": "Whether tokens are counted as if every group of layers kept whole sequences.",
    "StartUp.full_windows": "Whether windowed layers keep whole sequences.",
    "StartUp.full_chunks": "Whether chunked layers keep whole sequences.",
    "max_model_len": "Longest request that is served [tokens]; leave out for the model's own.",
    "reserve": "Share of the answer for which a request must find memory before it starts.",
    "full_length_kv": "Share of a sequence whose KV windowed and chunked layers keep at least, though they read less; "
    "leave out where they keep only what they read.",
    "sigma_ttft": "Standard deviation of ln(predicted / measured) of prefill passes, kernels apart.",
    "sigma_tpot": "Standard deviation of ln(predicted / measured) of decode steps, kernels apart.",
    "sigma_loaded_ttft": "Standard deviation of ln(predicted / measured) of first tokens under a load, kernels apart.",
    "fitted_on": "Deployments whose own runs the profile was fitted to, as `roofline calibrate` names them.",
    "scatter_ttft": "What remains of the sigma of a predicted TTFT on these deployments.",
    "scatter_tpot": "What remains of the sigma of a predicted TPOT on these deployments.",
    "ranges": "80 % range of each constant that was fitted, for readers: predictions do not use it.",
    "tunings": "How the engine's kernels differ from those that the calibrations were measured on.",
    "KernelOverride.kind": "Kind of kernel.",
    "KernelOverride.dtype": "Key of its calibration; leave out for all of them.",
    "KernelOverride.generation": "Generation of the GPUs; leave out for all of them.",
    "KernelOverride.peak": "Dtype of the units that multiply, where they are not the tensor cores.",
    "KernelOverride.eta_c": "Share of that peak, instead of the calibration's.",
    "compute": "Factor on the shares of the peak and of the special-function rate.",
    "KernelOverride.memory": "Factor on the share of the memory bandwidth.",
    # workloads
    "NamedWorkload.title": "What the requests are, in a line.",
    "isl": "Tokens of a prompt, mean.",
    "osl": "Tokens of an answer, mean.",
    "isl_cv": "Coefficient of variation of the prompts' lengths: their standard deviation over their mean.",
    "osl_cv": "Coefficient of variation of the answers' lengths.",
    "lengths": "Law of the lengths; a uniform one has a coefficient of variation of at most 0.577.",
    "prefix": "Tokens of a prompt whose KV cache is there already, mean; at most `isl`.",
    "slo": "Limits such as ttft:300ms,tpot:25ms,p99:2x or ttft:2s@p99,tpot:200ms@p99; leave out for none.",
    "share": "Share of the requests that must meet all limits without a percentile together; none: on means.",
    "arrivals": "How requests come: at a rate, from users who wait for their answers, or all at once.",
    "waits_for": "What somebody waits for: the first token of an answer that is read as it comes, the whole answer, or "
    "nothing. Without it, what the SLO limits.",
    # calibrations
    "date": "When the kernels were timed, or their tables published.",
    "measured_on": "Canonical names of the GPUs that were measured.",
    "kernels": "Efficiencies by kind of kernel and dtype.",
    "collectives": "Efficiencies by collective.",
    "engines": "Engines whose kernels were timed, with their versions.",
    "served": "Factors on whole passes, where servers were measured, but hardly any kernel.",
    "ServedPasses.prefill": "The factor on prefill passes.",
    "ServedPasses.decode": "The factor on decode steps.",
    "factor": "Factor on the time of every kernel of the pass.",
    "PassFactor.sigma": "Standard deviation of ln(predicted / measured) of a server of another model.",
    "PassFactor.runs": "Runs of servers that told it.",
    "models": "Models that these runs served.",
    "gpus": "GPUs that were timed.",
    "link": "Link that the collectives were timed on.",
    "eta_switch": "Share of the link rate that an all-reduce in the switch reaches.",
    "sigma": "Standard deviation of the log-normal whose 80 % interval holds 80 % of the rows.",
    "residual": "Median |ln(predicted / measured)| of the fit; left out where the set is assumed.",
    "measurements": "Rows that were fitted.",
    "t0": "Launch and fill.",
    "t0_ep": "Launch and fill of experts that are spread over ranks; left out for those of t0.",
    "eta_c": "Share of the dense peak.",
    "eta_m": "Share of the memory bandwidth.",
    "eta_x": "Share of the special-function rate.",
    "eta_s": "Share of the memory bandwidth for traffic that does not overlap.",
    "kappa": "Time per element of serial depth, inside the norm.",
    "kappa_s": "Time per element of serial depth, outside the norm.",
    "eps": "Time per item scheduled one by one.",
    "p": "Order of the norm: 1 adds, infinity takes the maximum.",
    "a0": "Start-up.",
    "a1": "Time per further rank.",
    "a2": "Time per doubling of the ranks.",
    "q": "Growth of the pipeline with the message.",
    "eta": "Share of the link bandwidth.",
}


_LIMIT = rf"(?:{'|'.join(LATENCIES)})_p[0-9.]+|p99_within"
_OF_A_COMPARISON: Keys[Any] = {
    "gpu": KEYS["gpu"],
    "label": COMPARED_KEYS["label"],
    "reference": COMPARED_KEYS["reference"],
}
#: Kind of row -> its keys.
_ROWS: dict[str, Keys[Any]] = {
    "Prediction": KEYS,
    "Simulation": {**KEYS, **SIMULATED_KEYS},
    "Case": {**KEYS, "reason": SHARED["reason"]},
    "Plan": {**KEYS, **GPU_PLAN_KEYS},
    "Goodput": {**KEYS, **GOODPUT_KEYS},
    "Cost": {**KEYS, **COST_KEYS},
    "Cache": {**KEYS, **CACHE_KEYS},
    "Fit": {**FIT_KEYS, "warnings": KEYS["warnings"]},
    "Budget": {**KEYS, **BUDGET_KEYS},
    "Point": {key: KEYS[key] for key in CURVE_KEYS},
    "Pareto": {**KEYS, **PARETO_KEYS},
    "Speculation": SPECULATION_KEYS,
    "Pools": POOL_KEYS,
    "Compared": {
        **KEYS,
        **COMPARED_KEYS,
        "reference": COMPARED_KEYS["reference"]._replace(is_open=True),
    },  # null: refused
    "Format": {"quantization": QUANTIZED_KEYS["quantization"], **KEYS, **QUANTIZED_KEYS, **BASELINE_KEYS},
    "Lever": {**KEYS, **LEVER_KEYS},
    "Sensitivity": SENSITIVITY_KEYS,
    "Solution": solution_keys(),
    "Formula": FORMULA_KEYS,
    "Chosen": {**KEYS, "reason": SHARED["reason"]},
    "Reduced": {**REDUCED_KEYS, **KEYS, "reason": SHARED["reason"]},
    "Check": CHECK_KEYS,
    "Gpu": GPU_KEYS,
    "Model": MODEL_KEYS,
    "Workload": WORKLOAD_KEYS,
    "Figure": FIGURE_KEYS,
    "Kernel": KERNEL_KEYS,
    "ComparedKernel": {
        "gpu": KEYS["gpu"],
        "label": COMPARED_KEYS["label"],
        "reference": COMPARED_KEYS["reference"],
        "pass": SHARED["pass"],
        **DIFFERENCE_KEYS,
    },
    "FormatKernel": {
        "quantization": SHARED["quantization"],
        "kv_cache_dtype": KEYS["kv_cache_dtype"],
        **BASELINE_KEYS,
        "pass": SHARED["pass"],
        **DIFFERENCE_KEYS,
    },
    "Part": {"source": SHARED["source"], "pass": SHARED["pass"], **PART_KEYS},
    "Suspect": {"source": SHARED["source"], **SUSPECT_KEYS},
    "MeasuredSweep": SWEEP_KEYS,
    "SweepPoint": POINT_KEYS,
    "SweepPart": {"source": SHARED["source"], **LINE_KEYS},
}
#: Class of roofline/serving/row_types.py -> what it is, and its keys.
_TYPES: dict[str, tuple[str, Keys[Any]]] = {
    "Row": (
        "A prediction of one case, or the requested keys of it; None where a value does not apply.",
        {**KEYS, "reason": SHARED["reason"]},
    ),
    "PlanRow": ("A row of `plan`: the prediction of a deployment, whether it meets the SLO, and why.", GPU_PLAN_KEYS),
    "GoodputRow": ("A row of `goodput`: the prediction at the goodput, and the goodput itself.", GOODPUT_KEYS),
    "CacheRow": (
        "A row of `prompt_cache`: the prediction with the cache in one tier, and that tier's figures.",
        CACHE_KEYS,
    ),
    "BudgetRow": ("A row of `budgets`: the prediction with one value of a setting, and the value itself.", BUDGET_KEYS),
    "FitRow": (
        "A row of `fits`: whether an engine starts, its memory, and what its log says.",
        {**FIT_KEYS, "warnings": KEYS["warnings"]},
    ),
    "ComparedRow": ("A row of `compare`: a prediction, and its speed-up over the reference.", COMPARED_KEYS),
    "QuantizedRow": (
        "A row of `quantize`: a prediction in one pair of formats, and its speed-up over the baseline.",
        {**QUANTIZED_KEYS, **BASELINE_KEYS},
    ),
    "LeverRow": ("A row of `levers`: the prediction of the changed case, and the effect of the change.", LEVER_KEYS),
    "ParetoRow": (
        "A row of `pareto`: the prediction of a point of the frontier, and the options that make it.",
        PARETO_KEYS,
    ),
    "CostRow": ("A row of `cost`: the prediction at one load, and its cost.", COST_KEYS),
}
#: Rows whose other keys may be missing: those of ``--keys``, and of groups.
_ALWAYS = {"Chosen": (), "Reduced": ("reduction",)}
#: Rows with a key for every limit of an SLO.
_FURTHER = {"Solution": {rf"^(?:target_(?:{_LIMIT})_ms|value_for_(?:{_LIMIT}))$": {"type": ["number", "null"]}}}

_NOTES = {"type": "array", "items": {"type": "string"}, "description": "What holds for all rows."}
_MEANINGS: Keys[Any] = {}  # by key, of all rows
for _keys in (*_ROWS.values(), GOAL_KEYS):
    for _name, _key in _keys.items():
        _known = _MEANINGS.setdefault(_name, _key)
        if (_known.kind, _known.unit, _known.meaning) != (_key.kind, _key.unit, _key.meaning):
            raise SystemExit(f"{_name} means two things: {_known.meaning!r} and {_key.meaning!r}")
        _MEANINGS[_name] = _known._replace(is_open=_known.is_open or _key.is_open)  # null in some row
_CASE_OUTPUT: dict[str, Any] = {"rows": ("Prediction", "Simulation"), "kernels": "Kernel"}
#: Command -> kinds of its rows, further keys that it may have, and those that it always has.
_OUTPUTS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("ttft", "tpot", "predict", "knee"), _CASE_OUTPUT),
    "plan": {
        "rows": "Plan",
        "steps": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Plans along a growing load: loads from and to, load, gpu, num_gpus, plan and rent.",
        },
        "pools": {"type": "array", "items": {"type": "object"}, "description": "Rows of disaggregate."},
        "turning_points": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Values of an input at which another kind of GPU leads: input, factor, value, gpu, plan.",
        },
        "next_measurement": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Runs of one replica, and what each is worth to the decision.",
        },
        "notes": _NOTES,
    },
    "goodput": {"rows": "Goodput"},
    "cost": {"rows": "Cost"},
    "cache": {"rows": "Cache"},
    "fits": {"rows": "Fit"},
    "budgets": {"rows": "Budget"},
    "curve": {"rows": ("Point", "Pareto", "Budget"), "notes": _NOTES},
    "pareto": {"rows": "Pareto", "notes": _NOTES},
    "speculate": {"rows": "Speculation"},
    "disaggregate": {"rows": "Pools"},
    "sweep": {
        "rows": ("Case", "Chosen", "Reduced"),
        "folder": {"type": ["string", "null"], "description": "Of the data set; null where no rows were written."},
        "row_count": REDUCED_KEYS["row_count"],
        "blocks": {"type": "integer", "description": "Files of the data set."},
        "computed": {"type": "integer", "description": "Rows that were computed now."},
    },
    "compare": {"rows": "Compared", "kernels": "ComparedKernel", "notes": _NOTES},
    "quantize": {"rows": "Format", "kernels": "FormatKernel", "notes": _NOTES},
    "sensitivity": {
        "rows": "Sensitivity",
        "case": {"type": "string", "description": "The case in a line."},
        "model": KEYS["model"],
        "gpu": KEYS["gpu"],
        "results": {
            "type": "object",
            "additionalProperties": {"type": ["number", "null"]},
            "description": "Results in SI: s, 1/s.",
        },
    },
    "levers": {"rows": "Lever", "goal": GOAL_KEYS["goal"], "notes": _NOTES},
    "solve": {"rows": "Solution"},
    "formula": {"rows": "Formula"},
    "check": {
        "rows": "Check",
        "parts": "Part",
        "suspects": "Suspect",
        "findings": {
            "type": "array",
            "items": {"type": "object"},
            "description": "What is wrong with each server by all of its runs: answer, faults, likelihoods.",
        },
        "changed": {
            "type": ["object", "null"],
            "description": "What two results differ by: the answer, its causes and how well each fits; null for one.",
        },
        "sweeps": "MeasuredSweep",
        "sweep_points": "SweepPoint",
        "sweep_parts": "SweepPart",
    },
    "gpus": {"rows": "Gpu"},
    "models": {"rows": "Model"},
    "workloads": {"rows": "Workload"},
    "gpus show": {"rows": "Figure", "document": {"type": "object", "description": "The specification, values in SI."}},
    "models show": {
        "rows": "Figure",
        "document": {"type": "object", "description": "The specification, values in SI."},
        "counted": {"type": "object", "description": "Counts [1] and sizes [B] from the layers."},
    },
}
_OPEN_KEYS = {
    "ttft": ("kernels",),
    "tpot": ("kernels",),
    "predict": ("kernels",),
    "knee": ("kernels",),
    "curve": ("notes",),
    "plan": ("turning_points", "next_measurement"),
    "sweep": ("folder", "row_count", "blocks", "computed"),
}  # --explain, --pareto, --why, --reduce
_KINDS = {"text": "string", "number": "number", "integer": "integer", "flag": "boolean", "mapping": "object"}
_PYTHON = {
    "text": "str", "number": "float", "integer": "int", "flag": "bool", "texts": "list[str]",
    "mapping": "dict[str, object]",
}  # fmt: skip
_OF_KEYS = """
What rows hold: with `--format json` and csv, in `to_dict` and tables. Keys of p90, p95 and p99 are like those of p50.
`python docs/build_schema.py` writes this section from the tables that make the rows.

| key | meaning | unit |
|---|---|---|"""
_ROW_TYPES = '''"""Types of the flat rows of the JSON contract, by key.

Written by docs/build_schema.py from the tables that make the rows. Annotations are no texts: `typing` would
compile each of them.
"""

from typing import TypedDict
'''


def schemas() -> dict[str, str]:
    """Text of every schema by the name of its file."""
    found = {kind: _schema(kind) for kind in SCHEMAS} | {"output": _output()}
    return {f"{kind}.schema.json": json.dumps(schema, indent=2) + "\n" for kind, schema in found.items()}


def _output() -> dict[str, Any]:
    """Schema of what commands print with ``--format json``: one definition a command, one a kind of row."""
    rows = {f"{name}Row": _row(name, keys) for name, keys in _ROWS.items()}
    meanings = {name: _meaning(key) for name, key in sorted(_MEANINGS.items())}
    commands = {name: _command(name, parts) for name, parts in _OUTPUTS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What roofline prints with --format json",
        "description": "$defs has an entry for each command; null is what does not apply. `unit` stands beside keys.",
        "anyOf": [{"$ref": f"#/$defs/{name.replace(' ', '%20')}"} for name in commands],
        "$defs": {**commands, **rows, "Keys": {"description": "What stands under a key.", "properties": meanings}},
    }


def _command(name: str, parts: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "schema_version": {"const": SCHEMA_VERSION, "description": "Of this schema; another one breaks readers."}
    }
    for key, part in parts.items():
        if isinstance(part, (str, tuple)) and not hasattr(part, "kind"):
            kinds = [{"$ref": f"#/$defs/{kind}Row"} for kind in ([part] if isinstance(part, str) else part)]
            items = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
            properties[key] = {"type": "array", "items": items, "description": f"{key.capitalize()}, one an entry."}
        else:
            properties[key] = _key(key) if hasattr(part, "kind") else part
    required = [key for key in properties if key not in _OPEN_KEYS.get(name, ())]
    return {
        "type": "object",
        "description": f"roofline {name} --format json.",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _row(name: str, keys: Iterable[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "type": "object",
        "properties": {key: _key(key) for key in keys},
        "required": list(_ALWAYS.get(name, keys)),
        "additionalProperties": False,
    }
    return row | ({"patternProperties": _FURTHER[name]} if name in _FURTHER else {})


def _key(key: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/Keys/properties/{key}"}


def _meaning(known: Key[Any]) -> dict[str, Any]:
    kind: Any = _KINDS.get(known.kind)
    if known.kind == "texts":
        described: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    elif known.kind == "value":
        described = {"type": ["number", "string", "null"]}
    else:
        described = {"type": [kind, "null"] if known.is_open else kind}
    unit = {} if known.unit is None else {"unit": known.unit}
    return {**described, "description": known.meaning, **unit}


def row_types() -> str:
    """Source of roofline/serving/row_types.py: a class for each kind of row of Python's answers."""
    return "\n\n".join([_ROW_TYPES, *(_class(name, meaning, keys) for name, (meaning, keys) in _TYPES.items())])


def _class(name: str, meaning: str, keys: Keys[Any]) -> str:
    fields = [
        f"    {key}: {_PYTHON[known.kind]}{' | None' if known.is_open else ''}"
        for key, known in keys.items()
        if name == "Row" or key != "reason"
    ]
    base = "TypedDict" if name == "Row" else "Row"
    return "\n".join([f"class {name}({base}, total=False):", f'    """{meaning}"""', "", *fields, ""])


def glossary() -> str:
    """Text of docs/glossary.md: what stands in it, and its last section anew."""
    lines = [
        f"| `{name}` | {key.meaning.replace('|', chr(92) + '|')} | {key.unit or ''} |"
        for name, key in sorted(_MEANINGS.items())
        if not re.search(r"_p(?:90|95|99)_", name)
    ]
    written, heading, _ = GLOSSARY.read_text(encoding="utf-8").partition("## Keys of rows\n")
    return "\n".join([f"{written}{heading}{_OF_KEYS}", *lines, ""])


def files() -> dict[Path, str]:
    """Text of every file that is written here."""
    return {TYPES: row_types(), GLOSSARY: glossary(), **{FOLDER / name: text for name, text in schemas().items()}}


def stale() -> list[str]:
    """Names of the files that are not what the classes say."""
    return [path.name for path, text in files().items() if not _is_current(path, text)]


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _schema(kind: str) -> dict[str, Any]:
    found = _plain(SCHEMAS[kind].model_json_schema())
    root = SCHEMAS[kind].__name__
    definitions = {name.lstrip("_"): part for name, part in found.pop("$defs").items()}
    for name, part in definitions.items():
        _describe(name, part)
    _describe(root, found)
    if kind == "gpu":
        found["properties"]["peak"]["propertyNames"] = {"enum": list(PEAKS)}
    if kind == "model":
        single, block = {"required": ["mixer", "ffn"]}, {"required": ["pattern"]}
        definitions["Group"]["anyOf"] = [single, block]
    header = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": _TITLES[kind]}
    return {**header, **found, "title": _TITLES[kind], "$defs": definitions}


def _plain(value: Any, inside: str = "") -> Any:
    """A schema without what is for pydantic: titles of fields, defaults that are null, underscores."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = inside in ("properties", "$defs")
    kept = {
        key if fields else _LIMITS.get(key, key): _plain(item, key)
        for key, item in value.items()
        if fields or not (key in ("title", "discriminator") or (key == "default" and item is None))
    }
    if not fields and "$ref" in kept:
        kept["$ref"] = kept["$ref"].replace("$defs/_", "$defs/")
    return kept


def _describe(definition: str, part: dict[str, Any]) -> None:
    """Say what every field means, and how its text must look."""
    for field, described in part.get("properties", {}).items():
        words = _DESCRIPTIONS.get(f"{definition}.{field}") or _DESCRIPTIONS.get(field)
        if words is None:
            raise SystemExit(f"{definition}.{field}: say in _DESCRIPTIONS of docs/build_schema.py what it means")
        described["description"] = words
        texts = [option for option in (described, *described.get("anyOf", ())) if option.get("type") == "string"]
        for text in texts:
            dimension = text.pop("dimension", None)
            if dimension is not None:
                units = "|".join(map(re.escape, sorted(DIMENSIONS[dimension], key=lambda unit: (-len(unit), unit))))
                text["pattern"] = f"^{_NUMBER}(?:{units})\\s*$"
                text["examples"] = [_EXAMPLES[dimension]]
            elif field == "date":
                text["pattern"] = _DATE
            elif field == "value":
                text["pattern"] = _COUNT
        if field == "value" and "integer" in (option.get("type") for option in described.get("anyOf", ())):
            next(option for option in described["anyOf"] if option["type"] == "integer")["minimum"] = 1


def main() -> None:
    """Write the files, or say which are stale."""
    if "--check" in sys.argv[1:]:
        found = stale()
        sys.exit(f"stale: {', '.join(found)}; run: python docs/build_schema.py" if found else 0)
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
