import { Stack, Text } from '@mantine/core'
import { bytes } from '../format.ts'
import { CodeText, Json } from '../parts/code.tsx'

interface Artifact {
  url: string
  filename?: string
  content_type?: string
  size_bytes?: number
}

/** The result of a model or a tool: its images and audio, the output of a program, and the whole result as JSON. */
export function Outputs({ of }: { of: Record<string, unknown> }) {
  const files = Array.isArray(of['output_artifacts']) ? (of['output_artifacts'] as Artifact[]) : []
  const { image_base64: picture, content_type: type, stdout, stderr, exit_code: code } = of
  const isPicture = typeof picture === 'string' && typeof type === 'string'
  return (
    <Stack>
      {files.map((file) => (
        <FileShown key={file.url} of={file} />
      ))}
      {isPicture && <img src={`data:${type};base64,${picture}`} alt="The result" className="made" />}
      {typeof stdout === 'string' && stdout !== '' && <CodeText text={stdout} label="output" />}
      {typeof stderr === 'string' && stderr !== '' && <CodeText text={stderr} label="error output" />}
      {typeof code === 'number' && <Text size="sm">It ended with {code}.</Text>}
      {/* A picture as text would fill the page. */}
      <Json of={isPicture ? { ...of, image_base64: `${picture.length} characters` } : of} label="result" />
    </Stack>
  )
}

function FileShown({ of: { url, filename, content_type: type = '', size_bytes: size } }: { of: Artifact }) {
  return (
    <div>
      {type.startsWith('image/') && <img src={url} alt={filename ?? 'The result'} className="made" />}
      {/* oxlint-disable-next-line jsx-a11y/media-has-caption -- what a model made has no captions */}
      {type.startsWith('audio/') && <audio src={url} controls aria-label={filename ?? 'The result'} />}
      {/* oxlint-disable-next-line jsx-a11y/media-has-caption -- what a model made has no captions */}
      {type.startsWith('video/') && <video src={url} controls className="made" />}
      <Text size="sm">
        <a className="link in-text" href={url} target="_blank" rel="noreferrer">
          {filename ?? 'Open the file'}
        </a>{' '}
        {type}
        {size !== undefined && `, ${bytes(size)}`}
      </Text>
    </div>
  )
}
