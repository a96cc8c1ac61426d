/** A CSV file with the names and rows that every reader must return, or the error that every reader must report. */
export interface CsvCase {
  title: string
  text: string
  names?: string[]
  /** The trimmed cells, with decimal points; '' for a missing value. */
  rows?: string[][]
  refusal?: string
}

export const joinLines = (...all: string[]) => `${all.join('\n')}\n`
export const joinCrlf = (...all: string[]) => `${all.join('\r\n')}\r\n`

/** Files whose delimiter can only be detected from the header and the rows together. */
export const DELIMITER_CASES: CsvCase[] = [
  { title: 'commas', text: joinLines('a,b', 'x,y'), names: ['a', 'b'], rows: [['x', 'y']] },
  { title: 'one column', text: joinLines('a', 'x', '', 'y'), names: ['a'], rows: [['x'], [''], ['y']] },
  {
    title: 'decimal commas in every cell',
    text: joinLines('Lat;Lon', '46,9;7,4', '47,1;8,5'),
    names: ['Lat', 'Lon'],
    rows: [
      ['46.9', '7.4'],
      ['47.1', '8.5'],
    ],
  },
  {
    title: 'units after commas in the header, and decimal commas',
    text: joinLines('Zeit;Temperatur, °C', 'x;15,5', 'y;16,25'),
    names: ['Zeit', 'Temperatur, °C'],
    rows: [
      ['x', '15.5'],
      ['y', '16.25'],
    ],
  },
  {
    title: 'units after commas in the header, and some decimal commas',
    text: joinLines('Zeit;Temp, °C;Feuchte, %', 'x;15,5;40', 'y;16;41,5'),
    names: ['Zeit', 'Temp, °C', 'Feuchte, %'],
    rows: [
      ['x', '15.5', '40.0'],
      ['y', '16.0', '41.5'],
    ],
  },
  {
    title: 'tabs, and commas in all names and cells',
    text: joinLines('Name, Vorname\tOrt, Land', 'Muster, Mia\tBern, CH'),
    names: ['Name, Vorname', 'Ort, Land'],
    rows: [['Muster, Mia', 'Bern, CH']],
  },
  {
    title: 'commas, and a bar in a name',
    text: joinLines('id,size|colour', 'x,M', 'y,L'),
    names: ['id', 'size|colour'],
    rows: [
      ['x', 'M'],
      ['y', 'L'],
    ],
  },
  {
    title: 'bars, and commas and semicolons in cells',
    text: joinLines('a|b', 'x, y|u;v', 'z, w|u;v'),
    names: ['a', 'b'],
    rows: [
      ['x, y', 'u;v'],
      ['z, w', 'u;v'],
    ],
  },
  {
    title: 'delimiters within quotes',
    text: joinLines('"a;b;c",d', '"x;y;z",w'),
    names: ['a;b;c', 'd'],
    rows: [['x;y;z', 'w']],
  },
  {
    title: 'two possible delimiters',
    text: joinLines('name;first,age', 'a;b,x', 'c;d,y'),
    refusal: 'line 1: the delimiter could be "," or ";"; add the line sep=, or sep=; before the header',
  },
  {
    title: 'commas before spaces within the cells of every row',
    text: joinLines('no;name, first;class', '1;Muster, Mia;3a', '2;Roe, Ann;3b'),
    names: ['no', 'name, first', 'class'],
    rows: [
      ['1', 'Muster, Mia', '3a'],
      ['2', 'Roe, Ann', '3b'],
    ],
  },
  {
    title: 'two possible delimiters, both before spaces',
    text: joinLines('no; name, first', '1; Muster, Mia', '2; Roe, Ann'),
    refusal: 'line 1: the delimiter could be "," or ";"; add the line sep=, or sep=; before the header',
  },
  {
    title: 'as many semicolons as commas before spaces, two of them in one cell',
    text: joinLines('no;street, code, town;rent', '1;Weg 3, 3000, Bern;950', '2;Gasse 1, 8000, Zug;1200'),
    names: ['no', 'street, code, town', 'rent'],
    rows: [
      ['1', 'Weg 3, 3000, Bern', '950'],
      ['2', 'Gasse 1, 8000, Zug', '1200'],
    ],
  },
  {
    title: 'commas before spaces, and one bar in the last cell of each row',
    text: joinLines('no, name, first|last', '1, x, u|v', '2, y, w|z'),
    refusal: 'line 1: the delimiter could be "," or "|"; add the line sep=, or sep=| before the header',
  },
  {
    title: 'commas before spaces, and bars within brackets in the header',
    text: joinLines('no, options [a|b]', '1, x|y', '2, z|w'),
    names: ['no', 'options [a|b]'],
    rows: [
      ['1', 'x|y'],
      ['2', 'z|w'],
    ],
  },
  {
    title: 'semicolons, and commas within brackets in the header',
    text: joinLines('range (low, high);mean', '1, 2;1.5', '3, 4;3.5'),
    names: ['range (low, high)', 'mean'],
    rows: [
      ['1, 2', '1.5'],
      ['3, 4', '3.5'],
    ],
  },
  {
    title: 'commas, and semicolons within brackets only in the rows',
    text: joinLines('id,from;to', 'x,(1.5;2)', 'y,{3;4}'),
    names: ['id', 'from;to'],
    rows: [
      ['x', '(1.5;2)'],
      ['y', '{3;4}'],
    ],
  },
  {
    title: 'semicolons, smileys and decimal commas',
    text: joinLines('text;size, m', 'fine :);1,5', ':( or :);2,5'),
    names: ['text', 'size, m'],
    rows: [
      ['fine :)', '1.5'],
      [':( or :)', '2.5'],
    ],
  },
  {
    title: 'a tab after each comma',
    text: joinLines('t,\tv', '0.5,\t2.25', '1,\t4.75'),
    names: ['t', '\tv'],
    rows: [
      ['0.5', '2.25'],
      ['1', '4.75'],
    ],
  },
  {
    title: 'a tab at the end of each line',
    text: joinCrlf('t;name;v\t', '1;x;2.5\t', '2;y;4.5\t'),
    names: ['t', 'name', 'v\t'],
    rows: [
      ['1', 'x', '2.5'],
      ['2', 'y', '4.5'],
    ],
  },
  {
    title: 'tabs, and commas at the ends of some cells',
    text: joinLines('name,\tfirst', 'Roe,\tAnn', 'x\ty'),
    names: ['name,', 'first'],
    rows: [
      ['Roe,', 'Ann'],
      ['x', 'y'],
    ],
  },
  {
    title: 'digits on both sides of commas, and a semicolon at the end of each line',
    text: joinLines('x,y;', '1,2;', '3,4;'),
    refusal: 'line 1: the delimiter could be "," or ";"; add the line sep=, or sep=; before the header',
  },
  {
    title: 'two spaces before quoted cells with semicolons',
    text: joinLines('a,  b;c', '1,  "x;y"', '2,  "z;w"'),
    refusal: 'line 1: the delimiter could be "," or ";"; add the line sep=, or sep=; before the header',
  },
  {
    title: 'commas between quoted cells, and semicolons within them',
    text: joinLines('"when","tools; choose all"', '"2024","a;b"', '"2025","c;d"'),
    names: ['when', 'tools; choose all'],
    rows: [
      ['2024', 'a;b'],
      ['2025', 'c;d'],
    ],
  },
  {
    title: 'bars next to quoted cells only in the rows, and commas within the cells',
    text: joinLines('a|b,c', '"x,1"|y', '"z,2"|"w"'),
    names: ['a', 'b,c'],
    rows: [
      ['x,1', 'y'],
      ['z,2', 'w'],
    ],
  },
  {
    title: 'two possible delimiters, and a line that declares one',
    text: joinLines('sep=;', 'name;first,age', 'a;b,x'),
    names: ['name', 'first,age'],
    rows: [['a', 'b,x']],
  },
  {
    title: 'a quoted line with the delimiter after a byte order mark',
    text: `\ufeff${joinCrlf('"sep=|"', 'a,b|c', 'x|y', 'z|w')}`,
    names: ['a,b', 'c'],
    rows: [
      ['x', 'y'],
      ['z', 'w'],
    ],
  },
]
