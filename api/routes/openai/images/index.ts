import { createImageEdit, createImageVariation } from './change-image.ts'
import { createImage } from './create-image.ts'

export const images = [createImage, createImageEdit, createImageVariation]
