// What the page knows: models, GPUs, engines and formats, as the page's data holds them.

/** Opens the data of the page: records by name, look-ups of roofs. */
export function openContents(data) {
  return {
    version: data.version,
    built: data.built,
    raw: data,
    models: data.models,
    gpus: data.gpus,
    engines: data.engines.map(({name}) => name),
    quantizations: data.presets.map((name) => ({name, title: data.titles[name] ?? ""})),
    kvFormats: data.kvFormats,
    workloads: data.workloads,
    modelOf: byName(data.models, (model) => [model.name, model.id, ...model.aliases]),
    gpuOf: byName(data.gpus, (gpu) => [gpu.name, ...gpu.aliases]),
    engineOf: byName(data.engines, (engine) => [engine.name]),
    roofPlace: new Map(data.roofs.map(([kind, key], place) => [`${kind} ${key}`, place])),
    environments: new Map(),
  };
}

/** Records by all their names, in lower case. */
function byName(records, namesOf) {
  const found = new Map();
  for (const record of records) {
    for (const name of namesOf(record)) {
      const folded = name.toLowerCase();
      if (!found.has(folded)) found.set(folded, record);
    }
  }
  return found;
}

/** A record by a name, whatever its case; undefined where there is none. */
export function recordOf(records, name) {
  return typeof name === "string" ? records.get(name.trim().toLowerCase()) : undefined;
}

/** How a model is stored and multiplied on a GPU: schemes of its sections, KV cache, notes; or why it cannot be. */
export function formatsOf(contents, model, gpu, preset, kvFormat) {
  const data = contents.raw;
  if (gpu.class === null) {
    return {refusal: `${gpu.name} has no 16-bit peak (bf16 or fp16), which every model needs`};
  }
  const {chosen, classes, sections} = data.quantizations;
  const choice = data.choices[chosen[model.signature][gpu.class][data.presets.indexOf(preset)]];
  if (choice.length === 1) return {refusal: textOf(data, choice[0], gpu)};
  const schemes = Object.fromEntries(sections.map((name, place) => [name, schemeOf(data.schemes[choice[place]])]));
  const place = kvFormat === null ? choice[sections.length] : data.kvFormats.indexOf(kvFormat);
  const [key, peak] = classes[gpu.class].kv[place];
  return {
    name: `${preset} ${kvFormat}`,
    schemes,
    kv: {format: data.kvFormats[place], nbytes: data.kvBytes[place], key, peak},
    sixteenBit: classes[gpu.class].sixteenBit,
    scores: classes[gpu.class].scores,
    notes: choice[sections.length + 1].map((text) => cacheNoted(textOf(data, text, gpu), data.kvFormats[place])),
  };
}

function schemeOf([format, nbytes, activation, peak, key, isDynamic]) {
  return {format, nbytes, activation, peak, key, isDynamic};
}

/** A note on the formats of a preset, with the KV cache that is used. */
function cacheNoted(text, format) {
  return text.replace(/, KV cache \w+/, `, KV cache ${format}`);
}

function textOf(data, place, gpu) {
  return data.texts[place].replaceAll("{gpu}", gpu.name);
}
