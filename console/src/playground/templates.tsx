import { Button, Group, Text } from '@mantine/core'
import type { ArrayFieldItemTemplateProps, IconButtonProps, TemplatesType } from '@rjsf/utils'

/** A list item below its number, without a column of arrow buttons, so that its fields get the full width. */
function Item({ buttonsProps, children, index, schema, totalItems }: ArrayFieldItemTemplateProps) {
  const isRow = schema.type === 'object'
  const name = `Row ${index + 1}`
  return (
    <div role="group" aria-label={name} className={isRow ? 'fields' : undefined}>
      <Group justify="space-between" mb={4}>
        <Text fw={600} size="sm">
          {isRow && name}
        </Text>
        {(!isRow || totalItems > 1) && (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`Remove ${name.toLowerCase()}`}
            onClick={buttonsProps.onRemoveItem}
          >
            Remove
          </Button>
        )}
      </Group>
      {children}
    </div>
  )
}

function AddButton({ className, disabled, id, onClick }: IconButtonProps) {
  const isOfList = className === 'rjsf-array-item-add'
  return (
    <Button size="compact-sm" variant="default" disabled={disabled ?? false} id={id} onClick={onClick}>
      {isOfList ? 'Add a row' : 'Add a field'}
    </Button>
  )
}

/** The form templates that replace those of the form library. */
export const TEMPLATES: Partial<Omit<TemplatesType, 'ButtonTemplates'>> & {
  ButtonTemplates: Partial<TemplatesType['ButtonTemplates']>
} = { ArrayFieldItemTemplate: Item, ButtonTemplates: { AddButton } }
