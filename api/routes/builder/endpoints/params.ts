import Type from 'typebox'

/** The id or name of an endpoint to read or change. */
export const EndpointParams = Type.Object({ endpoint_id: Type.String({ minLength: 1, maxLength: 100 }) })

/** The id or name of an endpoint to call. The published contract allows a longer value here. */
export const InferParams = Type.Object({ endpoint_id: Type.String({ minLength: 1, maxLength: 200 }) })
