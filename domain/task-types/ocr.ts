import type { TaskType } from './task-type.ts'

/**
 * A PNG that reads TOTAL 12.30. Callers can send the example as a request, so it doesn't reference a file on the
 * internet.
 */
const EXAMPLE_IMAGE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAANgAAAAnAQAAAABFn7uMAAAAeklEQVR42mP4jxswDHu5BoY/jD8Y+A/I94P4j/8fkP///wHjf4Z6CuT+2T+GILAcM5ABpP5Z/O+nmtxjMALK/eGnXI6BGSr3A+gHoK8e91MuB7fv+H+wffJUlPtn/x9nuJAg94cRJPS4AZQ+GOoYgMGNiD/y5EZuPgIALHKFM//eS/cAAAAASUVORK5CYII='

/** Optical character recognition: the text in an image. */
export const ocr: TaskType = {
  kind: 'specialist',
  category: 'computer_vision',
  input_schema: {
    type: 'object',
    required: ['image_url'],
    properties: {
      image_url: {
        type: 'string',
        description: 'A PNG, JPEG or WebP image: an upload, a public HTTPS address, or a base64 data: URL.',
      },
    },
  },
  output_schema: {
    type: 'object',
    required: ['text'],
    properties: {
      text: { type: 'string', description: 'Empty when the image contains no text.' },
      blocks: {
        type: 'array',
        description: 'The text split into parts; only some models return this.',
        items: {
          type: 'object',
          required: ['text'],
          properties: {
            text: { type: 'string' },
            field: {
              type: 'string',
              description:
                'The field that this part belongs to, such as `menu.price`. Only form models return it.',
            },
          },
        },
      },
      truncated: {
        type: 'boolean',
        description: 'True when the text exceeds the output limit of the model.',
      },
    },
  },
  example_input: { image_url: EXAMPLE_IMAGE },
  example_output: { text: 'TOTAL 12.30' },
  files: ['image_url'],
  namesModel: true,
}
