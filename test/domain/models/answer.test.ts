import assert from 'node:assert/strict'
import { faultInOneLine } from '../../../domain/models/answer.ts'
import { importedListing, taskTypesOfKind } from '../../../domain/task-types/index.ts'

describe('faultInOneLine', () => {
  const CASES: [string, string, string][] = [
    ['the message of an error response', '{"error":{"message":"no\\nroom"}}', 'answered 500: no room'],
    ['plain text', '  Internal Server Error\r\n', 'answered 500: Internal Server Error'],
    ['text without control characters', 'a\u0000b\u001b[31m\u202ec', 'answered 500: a b [31m c'],
    [
      'no HTML page from a web framework',
      '<!DOCTYPE html>\n<html>secret</html>',
      'answered 500 without a reason',
    ],
    [
      'no Python traceback',
      'Traceback (most recent call last):\n  File "/srv/x.py", line 1\nKeyError: 1',
      'answered 500 without a reason',
    ],
    [
      'no JavaScript stack trace',
      'Error: x\n    at Server.<anonymous> (file:///srv/x.ts:1:2)',
      'answered 500 without a reason',
    ],
    ['no reason for an empty body', '', 'answered 500 without a reason'],
    ['the start of a long message', 'x'.repeat(10_000), `answered 500: ${'x'.repeat(300)}`],
  ]
  for (const [what, text, line] of CASES)
    it(`returns ${what}`, () => assert.equal(faultInOneLine(500, text), line))
})

describe('the example of a task type', () => {
  for (const type of [...taskTypesOfKind('specialist'), ...taskTypesOfKind('generative')])
    it(`needs no internet access: ${type}`, () => {
      const text = JSON.stringify(importedListing(type).example_input)
      assert.doesNotMatch(text, /https?:/)
      for (const [, bytes = ''] of text.matchAll(/data:[\w/]+;base64,([^"]*)/g))
        assert.match(Buffer.from(bytes, 'base64').toString('latin1'), /^(?:\x89PNG|RIFF....WAVE)/s)
    })
})
