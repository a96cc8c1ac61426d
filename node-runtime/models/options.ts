import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { attentionHeads } from '../../domain/models/shape.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'

/** The possible locations of a Hugging Face folder: the folder itself, or the subfolder that trainers write. */
const PLACES = ['', 'model']
const OPENING = '<think>'
const CLOSING = '</think>'

/**
 * Returns the arguments that a profile adds for a model's architecture and chat template, such as the parsers of its
 * tool calls and reasoning.
 */
export async function optionsOf(profile: RuntimeProfile, modelDir: string): Promise<readonly string[]> {
  const { model_options: byType, trace_options: byTemplate } = profile
  const ofType = byType ? (byType[(await architectureIn(modelDir))?.type ?? ''] ?? []) : []
  if (!byTemplate) return ofType
  const template = await templateIn(modelDir)
  if (!template.includes(OPENING)) return ofType
  const more = beginsTrace(template) ? byTemplate.begun : byTemplate.written
  return ofType.some((option) => option === more[0]) ? ofType : [...ofType, ...more]
}

/** Returns whether a template ends its prompt with the start of a reasoning block. */
function beginsTrace(template: string): boolean {
  const prompt = template.slice(Math.max(0, template.lastIndexOf('add_generation_prompt')))
  return prompt.includes(OPENING) && !prompt.includes(CLOSING)
}

export interface Architecture {
  type: string
  architectures: string[]
  /** The number of attention heads; undefined if the config lacks it. */
  heads: number | undefined
}

/** Returns the architecture in a model's config.json; undefined for models in other formats. */
export async function architectureIn(modelDir: string): Promise<Architecture | undefined> {
  for (const place of PLACES) {
    const config = await jsonIn(join(modelDir, place, 'config.json'))
    const { model_type: type, architectures } = config
    if (typeof type === 'string')
      return {
        type,
        architectures: Array.isArray(architectures) ? architectures.map(String) : [],
        heads: attentionHeads(config),
      }
  }
  return undefined
}

async function templateIn(modelDir: string): Promise<string> {
  for (const place of PLACES) {
    const alone = await readFile(join(modelDir, place, 'chat_template.jinja'), 'utf8').catch(() => undefined)
    if (alone !== undefined) return alone
    const { chat_template: template } = await jsonIn(join(modelDir, place, 'tokenizer_config.json'))
    if (typeof template === 'string') return template
  }
  return ''
}

async function jsonIn(path: string): Promise<Record<string, unknown>> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>
  } catch {
    return {}
  }
}
