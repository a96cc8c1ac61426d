import Type from 'typebox'

/** The id or the name of an endpoint that is read or changed. */
export const EndpointParams = Type.Object({ endpoint_id: Type.String({ minLength: 1, maxLength: 100 }) })

/** The id or the name of an endpoint that is called. The published contract gives it a longer maximum. */
export const InferParams = Type.Object({ endpoint_id: Type.String({ minLength: 1, maxLength: 200 }) })
