import assert from 'node:assert/strict'
import { toSrt, toVtt } from '../../../domain/speech/subtitles.ts'

describe('subtitles', () => {
  const segments = [
    { start: 0, end: 1.5, text: ' Hello <b>you</b> & me.' },
    { start: 59.9996, end: 60.2, text: ' Late.' },
    { start: 3_661.042, end: 3_661.042, text: ' a\n\n2\n00:00 --> b\u0000' },
    { start: 4_000, end: 4_001, text: ' \n ' },
  ]

  it('are rendered as SubRip with numbered, single-line cues', () => {
    assert.equal(
      toSrt(segments),
      [
        '1\n00:00:00,000 --> 00:00:01,500\nHello <b>you</b> & me.\n\n',
        '2\n00:01:00,000 --> 00:01:00,200\nLate.\n\n',
        '3\n01:01:01,042 --> 01:01:01,043\na 2 00:00 -> b\n\n',
      ].join(''),
    )
  })

  it('are rendered as WebVTT with escaped markup', () => {
    assert.equal(
      toVtt(segments),
      [
        'WEBVTT\n\n',
        '00:00:00.000 --> 00:00:01.500\nHello &lt;b&gt;you&lt;/b&gt; &amp; me.\n\n',
        '00:01:00.000 --> 00:01:00.200\nLate.\n\n',
        '01:01:01.042 --> 01:01:01.043\na 2 00:00 -&gt; b\n\n',
      ].join(''),
    )
  })

  it('have no cues for silence', () => {
    assert.deepEqual([toSrt([]), toVtt([])], ['', 'WEBVTT\n\n'])
  })
})
