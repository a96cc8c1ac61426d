import { Button, Group, Stack, Text, Textarea } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { client } from '../api.ts'
import { DataTable } from '../parts/data-table.tsx'
import { Failure, Panel } from '../parts/page.tsx'
import type { Endpoint } from '../types.ts'
import { useAction } from '../use-action.ts'

interface EmbeddingResult {
  texts: string[]
  vectors: number[][]
  ms: number
}
/** The table has a column for each text. */
const MAX_COLUMNS = 12

/** Turns texts into vectors, and shows how similar they are. */
export default function Embedder({ endpoint }: { endpoint: Endpoint }) {
  const [text, setText] = useState(
    'A cat sleeps on the sofa.\nA kitten naps on the couch.\nThe invoice is due in May.',
  )
  const [made, setMade] = useState<EmbeddingResult>()
  const { run, isBusy, problem } = useAction()
  const texts = text.split('\n').flatMap((line) => line.trim() || [])

  async function embed() {
    const started = performance.now()
    const { task_id, result } = await client().endpoints.infer(endpoint.endpoint_id, {
      input: { text: texts },
    })
    const answer = result ?? (await client().tasks.wait(task_id)).result
    const vectors = answer?.['embeddings'] as number[][] | undefined
    if (!vectors) throw new Error(`Task ${task_id} has no vectors; its page says why.`)
    setMade({ texts, vectors, ms: performance.now() - started })
  }
  function submit(event: FormEvent) {
    event.preventDefault()
    void run(embed)
  }
  return (
    <Stack>
      <form onSubmit={submit}>
        <Stack gap="sm">
          <Textarea
            label="Texts"
            description={`One per line, at most ${MAX_COLUMNS}`}
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            error={texts.length > MAX_COLUMNS && `These are ${texts.length} texts.`}
            autosize
            minRows={3}
            maxRows={14}
          />
          <Group>
            <Button
              type="submit"
              loading={isBusy}
              disabled={texts.length === 0 || texts.length > MAX_COLUMNS}
            >
              Compare
            </Button>
          </Group>
        </Stack>
      </form>
      {problem && <Failure error={problem} what="vectors" />}
      {made && <Nearness of={made} />}
    </Stack>
  )
}

function Nearness({ of: { texts, vectors, ms } }: { of: EmbeddingResult }) {
  const rows = texts.map((text, at) => ({ text, at }))
  return (
    <Panel title="Similarity">
      <Text size="sm" mb="sm">
        {vectors.length} vectors of {vectors[0]?.length ?? 0} numbers after {(ms / 1000).toFixed(2)} s. 1 is
        the same direction, 0 has nothing in common.
      </Text>
      <DataTable
        caption="similarity"
        rows={rows}
        idOf={({ at }) => String(at)}
        empty="There are no texts."
        columns={[
          { head: 'Text', cell: ({ text, at }) => `${at + 1}. ${text}` },
          ...rows.map(({ at: other }) => ({
            head: `${other + 1}.`,
            align: 'right' as const,
            cell: ({ at }: { at: number }) => nearness(vectors[at], vectors[other]).toFixed(2),
          })),
        ]}
      />
    </Panel>
  )
}

/** The cosine of the angle between two vectors. */
function nearness(one: readonly number[] = [], other: readonly number[] = []): number {
  const product = (a: readonly number[], b: readonly number[]) =>
    a.reduce((sum, value, at) => sum + value * (b[at] ?? 0), 0)
  return product(one, other) / (Math.sqrt(product(one, one) * product(other, other)) || 1)
}
