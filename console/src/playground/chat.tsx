import { Button, Group, NumberInput, Paper, Stack, Text, Textarea } from '@mantine/core'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import { stream } from '../api.ts'
import { Failure } from '../parts/page.tsx'
import type { Endpoint } from '../types.ts'

interface Message {
  role: 'user' | 'assistant'
  content: string
}
interface Chunk {
  choices?: { delta?: { content?: string | null } }[]
  error?: { message: string }
}

/** Only the newest messages are sent and stored, so that a long chat doesn't fill the tab's memory. */
const KEPT = 40

export function Chat({ endpoint }: { endpoint: Endpoint }) {
  const [messages, setMessages] = useState<Message[]>([])
  const [text, setText] = useState('')
  const [maxTokens, setMaxTokens] = useState(512)
  const [temperature, setTemperature] = useState(0.7)
  const [problem, setProblem] = useState<Error>()
  const [took, setTook] = useState<string>()
  const [running, setRunning] = useState<AbortController>()
  useEffect(() => () => running?.abort(), [running])
  const end = useRef<HTMLDivElement>(null)
  useEffect(() => {
    // Newer browsers return a promise, which an effect must not return.
    void end.current?.scrollIntoView({ block: 'nearest' })
  }, [messages])

  async function send(event: FormEvent) {
    event.preventDefault()
    if (text.trim() === '' || running) return
    const prompt: Message[] = [...messages, { role: 'user' as const, content: text.trim() }].slice(-KEPT)
    const control = new AbortController()
    setRunning(control)
    setProblem(undefined)
    setTook(undefined)
    setText('')
    setMessages([...prompt, { role: 'assistant', content: '' }])
    try {
      setTook(await answer(prompt, control.signal))
    } catch (err) {
      if (!control.signal.aborted) setProblem(err as Error)
    }
    setRunning(undefined)
  }

  async function answer(asked: Message[], signal: AbortSignal): Promise<string> {
    const started = performance.now()
    let first: number | undefined
    let content = ''
    const body = { model: endpoint.name, messages: asked, stream: true, max_tokens: maxTokens, temperature }
    for await (const data of stream('/v1/chat/completions', { method: 'POST', body, signal })) {
      if (data === '[DONE]') break
      const chunk = JSON.parse(data) as Chunk
      if (chunk.error) throw new Error(chunk.error.message)
      const piece = chunk.choices?.[0]?.delta?.content
      if (!piece) continue
      first ??= performance.now() - started
      content += piece
      setMessages([...asked, { role: 'assistant', content }])
    }
    const all = performance.now() - started
    return `First words after ${Math.round(first ?? all)} ms, all after ${(all / 1000).toFixed(1)} s.`
  }

  return (
    <Stack>
      <Stack role="log" aria-label="Conversation" gap="sm">
        {messages.length === 0 && (
          <Text c="dimmed">Write something below. The response appears as it is generated.</Text>
        )}
        {messages.map(({ role, content }, at) => (
          <Paper key={`${at} ${role}`} withBorder p="sm" ml={role === 'user' ? 'xl' : 0} data-role={role}>
            <Text size="xs" c="dimmed" fw={600}>
              {role === 'user' ? 'You' : endpoint.name}
            </Text>
            <div className="answer">{content || '…'}</div>
          </Paper>
        ))}
        <div ref={end} />
      </Stack>
      {problem && <Failure error={problem} what="answer" />}
      {took && (
        <Text size="sm" c="dimmed">
          {took}
        </Text>
      )}
      <form onSubmit={(event) => void send(event)}>
        <Stack gap="sm">
          <Textarea
            label="Message"
            description="Enter sends the message; Shift+Enter starts a new line."
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) void send(event)
            }}
            autosize
            minRows={2}
            maxRows={10}
          />
          <Group align="flex-end">
            <NumberInput
              label="Maximum tokens"
              value={maxTokens}
              onChange={(value) => setMaxTokens(Number(value) || 1)}
              min={1}
              max={4096}
              w={130}
            />
            <NumberInput
              label="Temperature"
              value={temperature}
              onChange={(value) => setTemperature(Number(value))}
              min={0}
              max={2}
              step={0.1}
              w={130}
            />
            {running ? (
              <Button variant="default" onClick={() => running.abort()}>
                Stop
              </Button>
            ) : (
              <Button type="submit">Send</Button>
            )}
            <Button variant="subtle" onClick={() => setMessages([])} disabled={running !== undefined}>
              Clear
            </Button>
          </Group>
        </Stack>
      </form>
    </Stack>
  )
}
