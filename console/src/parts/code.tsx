import { ActionIcon, Box, Code, CopyButton, Tooltip } from '@mantine/core'
import { Icon } from './icon.tsx'

/** Text to read and to copy. */
export function CodeText({ text, label }: { text: string; label: string }) {
  return (
    <Box pos="relative">
      <Code block tabIndex={0} aria-label={label} mah={420} style={{ overflow: 'auto' }}>
        {text}
      </Code>
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? 'Copied' : 'Copy'}>
            <ActionIcon
              variant="default"
              pos="absolute"
              top={8}
              right={8}
              onClick={copy}
              aria-label={`Copy ${label}`}
            >
              <Icon name={copied ? 'check' : 'copy'} />
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </Box>
  )
}

export const Json = ({ of, label }: { of: unknown; label: string }) => (
  <CodeText text={JSON.stringify(of, null, 2)} label={label} />
)
