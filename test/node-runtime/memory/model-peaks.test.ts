import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ModelPeaks } from '../../../node-runtime/memory/model-peaks.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

describe('measured memory', () => {
  it('survives a restart, and is kept in memory while the disk is unwritable', () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 'measured.json')
    new ModelPeaks(path).note('model', 70)
    assert.equal(new ModelPeaks(path).of('model'), 70)

    writeFileSync(join(folder.path, 'file'), '')
    const unwritable = new ModelPeaks(join(folder.path, 'file', 'measured.json'))
    unwritable.note('model', 80)

    assert.equal(unwritable.of('model'), 80)
  })
})
