import type { TaskType } from './task-type.ts'

/** A PNG that reads TOTAL 12.30. The example is also a request to try, so it names no file on the internet. */
const EXAMPLE_IMAGE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAANgAAAAnAQAAAABFn7uMAAAAeklEQVR42mP4jxswDHu5BoY/jD8Y+A/I94P4j/8fkP///wHjf4Z6CuT+2T+GILAcM5ABpP5Z/O+nmtxjMALK/eGnXI6BGSr3A+gHoK8e91MuB7fv+H+wffJUlPtn/x9nuJAg94cRJPS4AZQ+GOoYgMGNiD/y5EZuPgIALHKFM//eS/cAAAAASUVORK5CYII='

/** Optical character recognition: the text in a picture. */
export const ocr: TaskType = {
  kind: 'specialist',
  category: 'computer_vision',
  input_schema: {
    type: 'object',
    required: ['image_url'],
    properties: {
      image_url: {
        type: 'string',
        description:
          'A picture in PNG, JPEG or WebP: an upload, a public HTTPS address, or a data: URL in base64.',
      },
    },
  },
  output_schema: {
    type: 'object',
    required: ['text'],
    properties: {
      text: { type: 'string', description: 'Empty when nothing is written there.' },
      blocks: {
        type: 'array',
        description: 'The parts of the text, from models that tell them apart.',
        items: {
          type: 'object',
          required: ['text'],
          properties: {
            text: { type: 'string' },
            field: {
              type: 'string',
              description: 'What the part is, for example `menu.price`, from models of forms.',
            },
          },
        },
      },
      truncated: { type: 'boolean', description: 'True when there is more text than the model writes.' },
    },
  },
  example_input: { image_url: EXAMPLE_IMAGE },
  example_output: { text: 'TOTAL 12.30' },
  files: ['image_url'],
  namesModel: true,
}
