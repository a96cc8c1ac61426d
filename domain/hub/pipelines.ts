const PICTURES = ['text-to-image', 'image-to-image']

/** The supported diffusers pipelines and their task types, as in node-runtime/servers/generative/pipelines.py. */
export const PIPELINES: Readonly<Record<string, readonly string[]>> = {
  StableDiffusionPipeline: PICTURES,
  StableDiffusionXLPipeline: PICTURES,
  FluxPipeline: PICTURES,
  AnimateDiffPipeline: ['text-to-video'],
  LTXPipeline: ['text-to-video'],
  WanPipeline: ['text-to-video'],
  StableVideoDiffusionPipeline: ['image-to-video'],
  StableAudioPipeline: ['text-to-audio'],
  ShapEPipeline: ['text-to-3d'],
  ShapEImg2ImgPipeline: ['image-to-3d'],
}

/** The task types of transformers audio models, by `model_type`. */
const SOUNDS: Readonly<Record<string, string>> = { vits: 'text-to-speech', musicgen: 'text-to-audio' }

/** Returns why a diffusers pipeline cannot serve a task; undefined when it can. */
export function pipelineProblem(task: string, name: string): string | undefined {
  const served = Object.hasOwn(PIPELINES, name) ? PIPELINES[name] : undefined
  if (!served) {
    const known = Object.keys(PIPELINES).join(', ')
    return `Its model_index.json names the pipeline ${name}, which is not supported here; the supported ones are ${known}.`
  }
  return served.includes(task) ? undefined : `${name} serves ${served.join(' and ')}, not ${task}.`
}

/** Returns why a transformers model with this `model_type` cannot serve an audio task; undefined when it can. */
export function soundProblem(task: string, kind: string): string | undefined {
  const served = Object.hasOwn(SOUNDS, kind) ? SOUNDS[kind] : undefined
  if (served === task) return undefined
  return served === undefined
    ? `Its config.json names the model type ${kind}, which does not serve ${task} here.`
    : `The model type ${kind} serves ${served}, not ${task}.`
}
