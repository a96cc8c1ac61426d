import { Text } from '@mantine/core'
import { measure, number } from '../../format.ts'
import type { Epoch, Run } from '../../types.ts'
import { Facts } from '../facts.tsx'
import { bestOf } from './curves.ts'

/** The meaning of each measure of a model, by its name in the API. */
const MEANING: Record<string, readonly [name: string, meaning: string]> = {
  mae: ['MAE', 'how far a prediction is off on average, in the unit of the column'],
  rmse: ['RMSE', 'the same, where large errors count for more'],
  r2: ['R²', 'the share of the differences that is explained: 1 is perfect, 0 no better than the mean'],
  accuracy: ['Accuracy', 'the share of the rows with the right class'],
  f1: ['F1', 'how well the classes are found, each counted alike: 1 is perfect'],
  log_loss: ['Log loss', 'how wrong the probabilities are: 0 is perfect'],
}

interface RunMeasuresProps {
  run: Run
  epochs: readonly Epoch[]
  scalars: readonly (readonly [string, unknown])[]
}

/** The metrics of a run, and the epoch with the lowest validation loss. */
export function RunMeasures({ run: { hyperparameters }, epochs, scalars }: RunMeasuresProps) {
  const best = bestOf(epochs)
  const share = hyperparameters['val_set_size']
  return (
    <>
      {best && (
        <Text size="sm" my="xs">
          The validation loss was lowest after epoch {number(best.epoch)}, with {measure(best.val_loss)}, and
          has not been lower since.
          {'early_stopping_epochs' in hyperparameters && ' The model is that of this epoch.'}
        </Text>
      )}
      {scalars.some(([name]) => MEANING[name]) && typeof share === 'number' && share > 0 && (
        <Text size="sm" c="dimmed" my="xs">
          Measured on the {measure(Math.round(share * 1_000) / 10)} % of the rows that were held out.
        </Text>
      )}
      {scalars.length > 0 && (
        <Facts
          of={Object.fromEntries(
            scalars.map(([name, value]) => {
              const [words, meaning] = MEANING[name] ?? [name.replaceAll('_', ' '), undefined]
              return [
                words,
                <>
                  {measure(value)}
                  {meaning && (
                    <Text span size="sm" c="dimmed" ml="sm">
                      {meaning}
                    </Text>
                  )}
                </>,
              ]
            }),
          )}
        />
      )}
    </>
  )
}
