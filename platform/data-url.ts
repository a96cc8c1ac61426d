/** The prefix of a `data:` URL for bytes of unknown type: model servers recognize files by their content. */
export const BYTES_URL = 'data:application/octet-stream;base64,'
