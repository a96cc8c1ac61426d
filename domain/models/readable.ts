import { GGUF_VERSIONS, type GgufLayout } from '../hub/gguf-layout.ts'
import { chooseWeights, shardsOf } from '../hub/weights.ts'

/** The header of a safetensors file: its tensor names, and where the last tensor ends. */
export interface SafetensorsHead {
  readonly tensors: readonly string[]
  readonly endBytes: number
}

/** A file with a safetensors file name; without a `head`, its content isn't safetensors. */
export interface WeightsFile {
  readonly path: string
  readonly sizeBytes: number
  readonly head: SafetensorsHead | 'lfs-pointer' | undefined
}

/**
 * A GGUF file in a folder. Its layout is `cut` when the file ends within the header, undefined when it is unreadable.
 */
export interface GgufFile {
  readonly path: string
  readonly sizeBytes: number
  readonly layout: GgufLayout | 'cut' | undefined
}

/** The parts of a model folder that decide whether a server can load it. */
export interface ModelFolder {
  readonly paths: readonly string[]
  /** The content of config.json. */
  readonly config: unknown
  /** The content of model.safetensors.index.json. */
  readonly shardIndex: unknown
  readonly weights: readonly WeightsFile[]
  readonly ggufs: readonly GgufFile[]
}

/** Profiles that load a folder with transformers, in the nodes' locked environment. */
const TRANSFORMERS = /^(?:llm-transformers|specialist-(?:onnx|torch))$/
const LANGUAGE_MODEL = /^llm-(?:transformers|vllm|vllm-process)$/
export const READS_GGUF = /^(?:(?:llm|specialist)-llamacpp|llm-llama-server)/
const READS_SAFETENSORS = /^(?:llm-(?:transformers|vllm|vllm-process)|specialist-(?:torch|whisper))$/

const BITSANDBYTES = 'bitsandbytes'
/**
 * Quantizations for which that environment has kernels. Keep in sync with `check_quantization` of its language model
 * server.
 */
export const READABLE_QUANTIZATIONS: ReadonlySet<string> = new Set(['fp8', 'mxfp4', BITSANDBYTES])
/** Tensors that bitsandbytes adds to a quantized layer. */
const BITSANDBYTES_STATE = /\.(?:quant_state\.|absmax$|SCB$)/
const TOKENIZER =
  /^(?:tokenizer\.json|tokenizer\.model|vocab\.(?:json|txt)|spiece\.model|sentencepiece\.bpe\.model|tekken\.json|.*\.tiktoken)$/

/** Causal language model types in the locked version of transformers; a test compares the two. */
export const CAUSAL_MODEL_TYPES: ReadonlySet<string> = new Set(
  (
    'afmoe apertus arcee aria_text axk1 axk2 bailing_hybrid bamba bart beam bert bert-generation big_bird ' +
    'bigbird_pegasus biogpt bitnet blenderbot blenderbot-small bloom blt camembert codegen cohere cohere2 ' +
    'cohere2_moe cohere_compass_text cpmant ctrl cwm data2vec-text dbrx deepseek_v2 deepseek_v3 deepseek_v32 ' +
    'deepseek_v4 diffllama doge dots1 dots3_note dots3_note_text electra emu3 ernie ernie4_5 ernie4_5_moe ' +
    'exaone4 exaone_moe falcon falcon_h1 falcon_mamba flex_olmo flint fuyu gemma gemma2 gemma3 gemma3_text ' +
    'gemma3n gemma3n_text gemma4 gemma4_assistant gemma4_text gemma4_unified gemma4_unified_assistant ' +
    'gemma4_unified_text git glm glm4 glm4_moe glm4_moe_lite glm_moe_dsa got_ocr2 gpt-sw3 gpt2 gpt_bigcode ' +
    'gpt_neo gpt_neox gpt_neox_japanese gpt_oss gptj granite granite_swa granitemoe granitemoe_swa ' +
    'granitemoehybrid granitemoeshared helium hrm_text hunyuan_v1_dense hunyuan_v1_moe hy_v3 hy_v4 ' +
    'hyperclovax inkling2_text inkling_text internlm3 iquestcoder jais2 jamba jetmoe kimi_linear kolibri1 ' +
    'laguna lfm2 lfm2_moe lfm3 llama llama4 llama4_text longcat_flash mamba mamba2 marian mbart megatron-bert ' +
    'mellum mimo_v2_flash minicpm3 minimax minimax_m2 minimax_m3_vl_text ministral ministral3 mistral mixtral ' +
    'mllama modernbert-decoder moshi moss_transcribe_diarize mpt musicgen musicgen_melody mvp nanochat ' +
    'nemotron nemotron_h olmo olmo2 olmo3 olmo_hybrid olmoe openai-gpt opt pegasus persimmon phi phi3 ' +
    'phi4_multimodal phimoe plbart prophetnet qwen2 qwen2_moe qwen3 qwen3_5 qwen3_5_moe qwen3_5_moe_text ' +
    'qwen3_5_text qwen3_moe qwen3_next qwen4_exp qwen4_exp_text recurrent_gemma reformer rembert roberta ' +
    'roberta-prelayernorm roc_bert roformer rwkv seed_oss smollm3 solar_open stablelm starcoder2 trocr ' +
    'vaultgemma whisper xglm xlm xlm-roberta xlm-roberta-xl xlnet xlstm xmod youtu zamba zamba2 zaya ' +
    ''
  )
    .trim()
    .split(' '),
)

/**
 * Returns why a server of this profile cannot load a model folder, and what to do. Returns undefined when it can, or
 * when no known fact rules it out.
 */
export function unreadableFolder(profile: string, folder: ModelFolder): string | undefined {
  return (
    brokenFile(folder.weights) ??
    (READS_GGUF.test(profile) ? brokenGguf(folder.ggufs) : undefined) ??
    (READS_SAFETENSORS.test(profile) ? incompleteWeights(folder) : undefined) ??
    (LANGUAGE_MODEL.test(profile) ? missingTokenizer(folder) : undefined) ??
    unreadableHere(profile, folder)
  )
}

function brokenFile(weights: readonly WeightsFile[]): string | undefined {
  for (const { path, sizeBytes, head } of weights) {
    if (head === 'lfs-pointer')
      return `${path} is a Git LFS pointer, not the weights: run \`git lfs pull\` in the folder, then import it again.`
    if (!head) return `${path} is not a valid safetensors file: its header is unreadable. Download it again.`
    if (head.endBytes !== sizeBytes)
      return `${path} has ${sizeBytes} bytes but its header describes ${head.endBytes}: it is truncated. Download it again.`
  }
  return undefined
}

function brokenGguf(ggufs: readonly GgufFile[]): string | undefined {
  for (const { path, sizeBytes, layout } of ggufs) {
    if (!layout) continue
    if (layout === 'cut')
      return `${path} has ${sizeBytes} bytes and ends within its header: it is truncated. Download it again.`
    if (!GGUF_VERSIONS.includes(layout.version))
      return `${path} has version ${layout.version} of the GGUF format, but llama.cpp reads ${GGUF_VERSIONS.join(' and ')}. Convert the model again.`
    if (layout.endBytes > sizeBytes)
      return `${path} has ${sizeBytes} bytes but its header describes ${layout.endBytes}: it is truncated. Download it again.`
  }
  return undefined
}

function incompleteWeights({ paths, shardIndex }: ModelFolder): string | undefined {
  // Fine-tuning writes the merged weights into a separate folder.
  if (!paths.includes('config.json')) return undefined
  const files = paths.map((path) => ({ path, sizeBytes: 0 }))
  const chosen = chooseWeights(files, shardsOf(shardIndex) ?? null)
  if (chosen?.format !== 'safetensors') {
    return (
      'The folder has no .safetensors weights; other formats can run code and are not loaded. ' +
      'Save the model with save_pretrained(..., safe_serialization=True), then import that folder.'
    )
  }
  const [first] = chosen.missing
  return first === undefined
    ? undefined
    : `The weights are incomplete: ${first} is missing. Download it, then import the folder again.`
}

function missingTokenizer({ paths }: ModelFolder): string | undefined {
  const names = paths.map((path) => path.slice(path.lastIndexOf('/') + 1))
  if (names.some((name) => TOKENIZER.test(name))) return undefined
  return 'The folder has no tokenizer (tokenizer.json or tokenizer.model). Save one with AutoTokenizer.from_pretrained(...).save_pretrained(FOLDER).'
}

/** Returns the quantization method in a config.json; null when the weights aren't quantized. */
export function quantizationOf(config: unknown): string | null {
  const { quantization_config: quantization } = (config ?? {}) as { quantization_config?: unknown }
  if (typeof quantization !== 'object' || quantization === null) return null
  const { quant_method: method } = quantization as { quant_method?: unknown }
  return typeof method === 'string' ? method : 'unknown'
}

/** The fields of a config.json that matter for loading its model; null where absent. */
export interface LoadConfig {
  readonly modelType: string | null
  readonly quantization: string | null
}

/** Returns why the server of this profile cannot load a model with this config.json; undefined when it can. */
export function unreadableConfig(
  profile: string,
  { modelType, quantization }: LoadConfig,
): string | undefined {
  if (!TRANSFORMERS.test(profile)) return undefined
  const isReadable = quantization === null || READABLE_QUANTIZATIONS.has(quantization)
  if (!isReadable) {
    return (
      `The weights are quantized with ${quantization}, which the runtime profile ${profile} cannot read: use ` +
      'llm-vllm on a GPU node, the unquantized weights, or a GGUF.'
    )
  }
  if (profile !== 'llm-transformers' || modelType === null || CAUSAL_MODEL_TYPES.has(modelType))
    return undefined
  return (
    `config.json names the model type ${JSON.stringify(modelType)}, which is not a causal language model that the ` +
    `runtime profile ${profile} supports. Use llm-vllm on a GPU node, or a GGUF of the model.`
  )
}

function unreadableHere(profile: string, { config, weights }: ModelFolder): string | undefined {
  const { model_type: type } = (config ?? {}) as { model_type?: unknown }
  const quantization = quantizationOf(config)
  const isWithoutState = !weights.some(
    ({ head }) => typeof head === 'object' && head.tensors.some((name) => BITSANDBYTES_STATE.test(name)),
  )
  if (TRANSFORMERS.test(profile) && quantization === BITSANDBYTES && isWithoutState)
    return 'config.json declares bitsandbytes quantization, but the weights are not quantized: remove quantization_config from it.'
  return unreadableConfig(profile, { modelType: typeof type === 'string' ? type : null, quantization })
}
