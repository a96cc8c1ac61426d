/** The beginning of a `data:` URL for bytes whose type is not known: model servers recognise files by their bytes. */
export const BYTES_URL = 'data:application/octet-stream;base64,'
