import assert from 'node:assert/strict'
import { loadCatalog } from '../../../platform/catalog.ts'
import { makeTinyLlm, probeLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

interface Row {
  ids: number[]
  tokens: string[]
  learnt: boolean[]
}
interface RenderedRows {
  rows: Row[]
  cut: number
  notes: Record<string, [count: number, row: number]>
  eos: string
}

const ALPACA = [
  { instruction: 'Add two and three.', input: '', output: 'Two and three make five.' },
  { instruction: 'Translate.', input: 'good morning', output: 'Buenos dias.' },
  { instruction: 'No input at all', output: '42' },
]
const ADDED = [
  { role: 'user', content: 'Add two and three.' },
  { role: 'assistant', content: 'Two and three make five.' },
]
const AGAIN = 'Say it again and again. '.repeat(40)
const LONG = [
  { instruction: `${AGAIN}THE END`, input: '', output: 'Paris.' },
  { instruction: 'short', input: '', output: AGAIN },
]
const MESSAGES = [
  { role: 'system', content: 'Be kind.' },
  { role: 'user', content: 'Hello' },
  { role: 'assistant', content: 'Hi there.' },
]
const CONVERSATIONS = [
  { from: 'system', value: 'Be kind.' },
  { from: 'human', value: 'Hello' },
  { from: 'gpt', value: 'Hi there.' },
]
const ASKED = { instruction: 'Ask', input: '', output: 'Answer' }

/** Configs as GPT-2, MPT, a vision-language model and Llama write them, and one without a length. */
const CONFIGS = [
  { model_type: 'gpt2', n_positions: 1024, n_ctx: 1024 },
  { model_type: 'mpt', max_seq_len: 2048 },
  { model_type: 'acme', max_position_embeddings: -1, text_config: { max_seq_len: 512 } },
  { model_type: 'llama', max_position_embeddings: 4096, n_positions: 1 },
  { model_type: 'rwkv' },
]
const SPECIAL_TOKENS = [{}, { eos_token: '<s>' }, { eos_token: '<|user|>' }, {}]

const learntText = ({ tokens, learnt }: Row): string => tokens.filter((_, index) => learnt[index]).join('')

describe('row preparation for language model training', () => {
  const folder = temporaryFolder()
  const model = `${folder.path}/model`
  const plain = `${folder.path}/plain`
  let seen: Record<
    'alpaca' | 'whole' | 'cut' | 'chat' | 'cutChat' | 'text' | 'plain' | 'beyond',
    RenderedRows
  >
  let oracle: { ids: number[]; mask: number[] }
  let positions: number[]
  let cached: string[][]

  before(requireLlm)
  before(async () => {
    await Promise.all([makeTinyLlm(model), makeTinyLlm(plain, { noTemplate: true, positions: 64 })])
    const rows = (name: string, rows: object[], settings: object = {}, of = model) => ({
      ask: 'render',
      name,
      rows,
      model: of,
      settings: { dataset_type: 'alpaca', ...settings },
    })
    const chats = [{ messages: MESSAGES }, { conversations: CONVERSATIONS }]
    const requests = [
      rows('alpaca', ALPACA),
      rows('whole', LONG),
      rows('cut', LONG, { sequence_len: 32 }),
      rows('chat', chats, { dataset_type: 'chat' }),
      rows('cutChat', chats, { dataset_type: 'chat', sequence_len: 8 }),
      rows('text', [{ body: 'The quick brown fox', text: 'no' }], {
        dataset_type: 'text',
        text_column: 'body',
      }),
      rows('plain', [ASKED], {}, plain),
      rows('beyond', [{ ...ASKED, output: 'x '.repeat(200) }], {}, plain),
    ]
    const given = { dataset_type: 'text', val_set_size: 0 }
    const answers = await probeLlm<[...RenderedRows[], typeof oracle, typeof positions, typeof cached]>([
      ...requests,
      { ask: 'assistant_mask', model, messages: ADDED },
      { ask: 'positions', configs: CONFIGS },
      {
        ask: 'cached',
        model,
        rows: [{ text: 'The end' }],
        special_tokens: SPECIAL_TOKENS,
        hyperparameters: loadCatalog().model('llm-qlora-finetune')?.resolveHyperparameters(given).values,
      },
    ])
    ;[oracle, positions, cached] = answers.slice(-3) as [typeof oracle, typeof positions, typeof cached]
    seen = Object.fromEntries(requests.map(({ name }, index) => [name, answers[index]])) as typeof seen
  })
  after(() => folder[Symbol.dispose]())

  it('alpaca: learns exactly the tokens of the output and its end, after the prompt that chat would send', () => {
    const { rows, eos } = seen.alpaca

    assert.deepEqual(
      rows.map(learntText),
      ALPACA.map(({ output }) => output + eos),
    )
    for (const { learnt } of rows)
      assert.deepEqual(
        learnt,
        learnt.toSorted((a, b) => Number(a) - Number(b)),
      )
    assert.match(rows[1]!.tokens.join(''), /^<s><\|user\|>Translate\.\n\ngood morning<\/s><\|assistant\|>/)
  })

  it("alpaca: learns exactly the tokens that the template marks as the assistant's", () => {
    assert.deepEqual(seen.alpaca.rows[0]!.ids, oracle.ids)
    assert.deepEqual(seen.alpaca.rows[0]!.learnt.map(Number), oracle.mask)
  })

  it('alpaca: keeps the whole output of an overlong row and drops the start of its prompt', () => {
    const { rows, cut, notes, eos } = seen.cut

    assert.equal(rows.length, LONG.length)
    assert.equal(cut, 2)
    // The output of the second row alone has more tokens than sequence_len.
    assert.deepEqual(notes, { cut: [2, 1], long_output: [1, 2] })
    assert.deepEqual(rows.map(learntText), [`Paris.${eos}`, AGAIN + eos])
    assert.deepEqual(rows[0]!.ids, seen.whole.rows[0]!.ids.slice(-32))
    // One prompt token stays in front of an output that exceeds the limit, so that the output's first token is trained
    // too.
    assert.equal(rows[1]!.learnt.indexOf(true), 1)
  })

  it('chat: learns every token, whether rows have messages or conversations', () => {
    const [one, other] = seen.chat.rows

    assert.deepEqual(one, other)
    assert.ok(one!.learnt.every(Boolean))
    const transcript = '<s><|system|>Be kind.</s><|user|>Hello</s><|assistant|>Hi there.</s>'
    assert.equal(one!.tokens.join(''), transcript)
    assert.deepEqual(seen.cutChat.rows[0]!.ids, one!.ids.slice(0, 8))
  })

  it('text: learns every token of the named column, and the end', () => {
    const { rows, eos } = seen.text

    assert.equal(rows[0]!.tokens.join(''), `The quick brown fox${eos}`)
    assert.ok(rows[0]!.learnt.every(Boolean))
  })

  it("uses a plain template if the model has none; no row exceeds the model's positions", () => {
    const { rows, eos } = seen.plain

    assert.equal(learntText(rows[0]!), `Answer${eos}`)
    assert.equal(rows[0]!.tokens.join(''), `<s>### User:\nAsk\n\n### Assistant:\nAnswer${eos}`)
    assert.equal(seen.beyond.rows[0]!.ids.length, 64)
  })

  it('reads the maximum length under each name that model families use for it', () => {
    assert.deepEqual(positions, [1024, 2048, 512, 4096, 2 ** 30])
  })

  it('reuses cached tokens only while the special tokens are the same', () => {
    assert.deepEqual(
      cached.map(([text]) => text?.slice('The end'.length)),
      ['</s>', '<s>', '<|user|>', '</s>'],
    )
  })
})
