import assert from 'node:assert/strict'
import { endpointNamesOf } from '../../domain/endpoint-name.ts'
import { newId } from '../../domain/ids.ts'

const JOB = '01a207a9-d15d-7392-a8f6-928189281d10'

describe('endpoint names derived from jobs', () => {
  it('are slugs, with the end of the id in the second candidate', () => {
    assert.deepEqual(endpointNamesOf('Árbol de precios, v7!', JOB), [
      'arbol-de-precios-v7',
      'arbol-de-precios-v7-89281d10',
    ])
  })

  it('are never the names of tools that agents know', () => {
    assert.deepEqual(endpointNamesOf('Recall', JOB), ['model-recall', 'model-recall-89281d10'])
  })

  it('are never empty, too long, an id, or a name reserved for hub imports', () => {
    assert.equal(endpointNamesOf('。。。', JOB)[0], 'model')
    assert.equal(endpointNamesOf('hf-thing', JOB)[0], 'model-hf-thing')
    const id = newId()
    assert.equal(endpointNamesOf(id, JOB)[0], `model-${id}`)
    assert.ok(endpointNamesOf('x'.repeat(500), JOB).every((name) => name.length <= 100))
  })
})
