const PICTURES = ['text-to-image', 'image-to-image']

/** The task types of the pipelines of diffusers that are served, as node-runtime/servers/generative/pipelines.py has them. */
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

/** The task types of the models of transformers that make sounds, by their `model_type`. */
const SOUNDS: Readonly<Record<string, string>> = { vits: 'text-to-speech', musicgen: 'text-to-audio' }

/** Returns why a pipeline of diffusers cannot serve a task; undefined when it can. */
export function pipelineProblem(task: string, name: string): string | undefined {
  const served = Object.hasOwn(PIPELINES, name) ? PIPELINES[name] : undefined
  if (!served) {
    const known = Object.keys(PIPELINES).join(', ')
    return `Its model_index.json names the pipeline ${name}, which is not served here; served are ${known}.`
  }
  return served.includes(task) ? undefined : `${name} serves ${served.join(' and ')}, not ${task}.`
}

/** Returns why a model of transformers with this `model_type` cannot make the files of a task; undefined when it can. */
export function soundProblem(task: string, kind: string): string | undefined {
  const served = Object.hasOwn(SOUNDS, kind) ? SOUNDS[kind] : undefined
  if (served === task) return undefined
  return served === undefined
    ? `Its config.json names a model of the type ${kind}, which does not serve ${task} here.`
    : `A model of the type ${kind} serves ${served}, not ${task}.`
}
