import type { Plugin } from 'vite'

/** The class names of a component, and the styles of one. Names in lower case belong to no component. */
const CLASSES = /\/@mantine\/core\/esm\/.*\/(\w+)\.module\.mjs$/
const STYLES = /\/@mantine\/core\/styles\/([A-Z]\w*)\.css$/
const ALL = '@mantine/core/styles.css'

/**
 * Fails the build if pages lack the styles of a Mantine component that they use, if styles are unused, or if their
 * order differs from that of Mantine's full style sheet, in which components follow those that they build on.
 */
export const mantineStyles = (): Plugin => ({
  name: 'mantine-styles',
  apply: 'build',
  async generateBundle(_, bundle) {
    const chunks = Object.values(bundle).filter((each) => each.type === 'chunk')
    const cssOf = (of: typeof chunks): string =>
      of
        .flatMap(({ viteMetadata }) => [...(viteMetadata?.importedCss ?? [])])
        .map((name) => (bundle[name]?.type === 'asset' ? String(bundle[name].source) : ''))
        .join('')
    const everywhere = cssOf(chunks.filter(({ isEntry }) => isEntry))
    const wrong: string[] = []
    const used = new Set<string>()
    for (const chunk of chunks) {
      const css = everywhere + cssOf([chunk])
      for (const id of Object.keys(chunk.modules)) {
        const [name] = namesOf([id], CLASSES)
        if (name === undefined) continue
        used.add(name)
        const classes = this.getModuleInfo(id)?.code?.match(/\bm_[0-9a-f]+\b/g) ?? []
        if (!classes.some((each) => css.includes(`.${each}`)))
          wrong.push(`${name} has no styles in ${chunk.name}`)
      }
    }

    const all = (await this.resolve(ALL))?.id ?? ''
    const text = await this.fs.readFile(all, { encoding: 'utf8' })
    const placeOf = async (name: string): Promise<number> => {
      const styles = await this.fs.readFile(all.replace(/\.css$/, `/${name}.css`), { encoding: 'utf8' })
      return text.indexOf(styles.trim())
    }
    for (const id of this.getModuleIds()) {
      const list = namesOf(this.getModuleInfo(id)?.importedIds ?? [], STYLES)
      const placed = await Promise.all(list.map(async (name) => ({ name, place: await placeOf(name) })))
      for (const [i, { name, place }] of placed.entries()) {
        if (!used.has(name)) wrong.push(`nothing uses the styles of ${name}`)
        const before = placed[i - 1]
        if (before && place < before.place)
          wrong.push(`the styles of ${name} belong before those of ${before.name}`)
      }
    }
    if (wrong.length > 0) this.error(wrong.join('; '))
  },
})

const namesOf = (ids: readonly string[], pattern: RegExp): string[] =>
  ids.flatMap((id) => pattern.exec(id)?.[1] ?? [])
