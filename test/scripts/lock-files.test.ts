import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'

interface Lock {
  packages: Record<string, { integrity?: string; link?: boolean; inBundle?: boolean }>
}

describe('npm lock files', () => {
  // npm omits the integrity when it creates a lock file from an installed folder (npm/cli#4460).
  for (const file of globSync('**/package-lock.json', { exclude: ['**/node_modules/**'] }))
    it(`pin every package by its digest, including packages for other platforms (${file})`, () => {
      const { packages } = JSON.parse(readFileSync(file, 'utf8')) as Lock
      const bare = Object.entries(packages).filter(
        ([path, { integrity, link, inBundle }]) => path !== '' && !link && !inBundle && !integrity,
      )
      assert.deepEqual(
        bare.map(([path]) => path),
        [],
        'remove these entries and run `npm install --package-lock-only` in a folder without node_modules',
      )
    })
})
