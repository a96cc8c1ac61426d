import assert from 'node:assert/strict'
import { cp, readFile, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { checkModelFolder } from '../../../node-runtime/models/folder.ts'
import { houseRows, reviewRows, writeCsv } from '../../support/builders/sample-data.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { runTrainer, startModelServer } from '../../support/servers/nodes/trainer.ts'

const SECRET = 'postgres://owner:hunter2@db.internal/main?sslmode=require&application_name=x'

describe('a model whose manifest names files outside its folder', () => {
  const folder = temporaryFolder()
  after(() => folder[Symbol.dispose]())
  let secret: string
  let trees: string
  let texts: string
  before(async () => {
    secret = join(folder.path, 'secret.env')
    await writeFile(secret, `DATABASE_URL=${SECRET}\n`)
    const hyperparameters = { epochs: 3 }
    const train = (name: string, model: string, file: string) =>
      runTrainer({ folder: join(folder.path, name), model, file, hyperparameters })
    const rows = await writeCsv(folder.path, houseRows(100), 'houses.csv')
    const reviewed = await writeCsv(folder.path, reviewRows(100), 'reviews.csv')
    const [first, second] = [
      await train('trees', 'tabular-regression', rows),
      await train('texts', 'text-classification', reviewed),
    ]
    assert.deepEqual([first.code, second.code], [0, 0])
    trees = first.outputDir
    texts = second.outputDir
  })

  /** Copies a trained model and replaces its manifest. */
  async function spoilt(model: string, name: string, manifest: object): Promise<string> {
    const dir = join(folder.path, name)
    await cp(model, dir, { recursive: true })
    const path = join(dir, 'manifest.json')
    await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, 'utf8')), ...manifest }))
    return dir
  }

  async function linked(model: string, name: string, file: string): Promise<string> {
    const dir = await spoilt(model, name, {})
    await rename(join(dir, file), join(dir, `${file}.old`))
    await symlink(secret, join(dir, file))
    return dir
  }

  const silent = (text: string) => {
    assert.doesNotMatch(text, /hunter2|sslmode|DATABASE_URL/)
    return true
  }

  it('is not served, and no content of such a file leaks', async () => {
    const folders = [
      await spoilt(trees, 'absolute', { model_file: secret }),
      await spoilt(trees, 'upwards', { model_file: '../secret.env' }),
      await spoilt(trees, 'below', { model_file: './sub/../model.txt' }),
      await spoilt(trees, 'list', { model_file: ['model.txt'] }),
      await linked(trees, 'link', 'model.txt'),
      await spoilt(texts, 'words', { model_file: '../secret.env' }),
      await linked(texts, 'vocabulary', 'vocabulary.json'),
    ]
    for (const dir of folders) {
      await assert.rejects(startModelServer(dir), (err: Error) => {
        assert.match(err.message, /its weights cannot be used: the model names a file/, dir)
        return silent(err.message)
      })
    }
  })

  it('leaks no content of a damaged model file', async () => {
    const dir = await spoilt(trees, 'damaged', {})
    await writeFile(join(dir, 'model.txt'), `DATABASE_URL=${SECRET}\n`)

    await assert.rejects(startModelServer(dir), (err: Error) => silent(err.message))
  })

  it('is not trained on, and no content of such a file leaks', async () => {
    const damaged = await spoilt(trees, 'damaged-base', {})
    await writeFile(join(damaged, 'model.txt'), `DATABASE_URL=${SECRET}\n`)
    for (const [name, baseDir] of [
      ['from-absolute', await spoilt(trees, 'base-absolute', { model_file: secret })],
      ['from-link', await linked(trees, 'base-link', 'model.txt')],
      ['from-damaged', damaged],
    ] as const) {
      const run = await runTrainer({
        folder: join(folder.path, name),
        model: 'tabular-regression',
        file: join(folder.path, 'houses.csv'),
        hyperparameters: { epochs: 3 },
        baseDir,
      })

      assert.equal(run.code, 64, name)
      assert.equal(run.error?.code, 'bad_base')
      assert.match(run.error.message, /^The base model cannot be read: /)
      silent(JSON.stringify(run.events) + run.stderr)
    }
  })

  it('is rejected by its node for any server', async () => {
    const stray = async (name: string, file: string, content: unknown) => {
      const dir = join(folder.path, 'node', name)
      await cp(trees, dir, { recursive: true })
      await writeFile(join(dir, file), JSON.stringify(content))
      return dir
    }
    const index = (shard: string) => ({
      metadata: {},
      weight_map: { 'a.weight': 'one.safetensors', b: shard },
    })
    for (const dir of [
      await stray('shard', 'model.safetensors.index.json', index('../../identity.json')),
      await stray('absolute', 'model.safetensors.index.json', index('/etc/hostname')),
      await stray('bin', 'pytorch_model.bin.index.json', index('sub/one.bin')),
      await stray('windows', 'model.safetensors.index.json', index('..\\identity.json')),
      await stray('tokenizer', 'tokenizer_config.json', { fast_tokenizer_files: ['../tokenizer.1.0.json'] }),
      await spoilt(trees, 'node/manifest', { model_file: '../secret.env' }),
      await linked(trees, 'node/link', 'model.txt'),
    ]) {
      await assert.rejects(checkModelFolder(dir), { name: 'StrayFileError' }, dir)
    }
    const usual = await stray('usual', 'model.safetensors.index.json', index('two.safetensors'))
    const kept = { tokenizer_file: '/home/maker/tokenizer.json', name_or_path: '/home/maker' }
    await writeFile(join(usual, 'tokenizer_config.json'), JSON.stringify(kept))
    await checkModelFolder(usual)
  })
})
