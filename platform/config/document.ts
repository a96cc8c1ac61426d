import { CACHE_HOME, SETTINGS } from '../config.ts'

/** Returns the table of settings in Markdown; `docs/configuration.md` must match it. */
export function configurationDocument(): string {
  const rows = Object.entries(SETTINGS).map(([name, { kind, default: fallback, meaning }]) => {
    const shown =
      fallback === undefined
        ? 'none'
        : fallback === ''
          ? 'empty'
          : `\`${fallback.replace(CACHE_HOME, '~/.cache')}\``
    return `| \`${name}\` | ${kind} | ${shown} | ${meaning} |`
  })
  return [
    '# Settings',
    '',
    'Every setting is an environment variable. `npm run config:write` writes this table from `platform/config.ts`.',
    '',
    '| variable | type | default | meaning |',
    '| --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n')
}
