import { joinCrlf, type CsvCase, DELIMITER_CASES, joinLines } from './csv-delimiter-cases.ts'

/** Cases for the upload, the trainers and the tool `query_table`. */
export const CSV_CASES: CsvCase[] = [
  ...DELIMITER_CASES,
  // The number of fields.
  {
    title: 'a row with an extra field',
    text: joinLines('a,b', 'x,y', 'x,y,z'),
    refusal: 'line 3: 3 fields where the header has 2',
  },
  {
    title: 'a row with a missing field',
    text: joinLines('a;b;c', 'x;y;z', 'x;y'),
    refusal: 'line 3: 2 fields where the header has 3',
  },
  {
    title: 'a title row',
    text: joinLines('Report', 'a,b', 'x,y'),
    refusal: 'line 2: 2 fields where the header has 1',
  },
  {
    title: 'title rows above semicolon-separated rows',
    text: joinLines('Titel: Bevölkerung', 'Quelle: BFS', 'Jahr;Kanton;Wert', '2020;BE;1'),
    refusal:
      'line 1: the header contains no ";", but the rows do; start the file with a row of column names, or with the line sep=, if it has only one column',
  },
  {
    title: 'two title rows and a blank row that Excel has padded with delimiters',
    text: joinCrlf('Umsatz 2024;;;', 'Quelle: BFS;;;', ';;;', 'Jahr;Ort;Wert;', '2020;Bern;1,5;'),
    refusal:
      'line 1: the header names only 1 of 4 columns, but rows have values in the unnamed ones; start the file with a row of column names',
  },
  {
    title: 'a title in a middle column, and quotes around all cells',
    text: joinLines(
      '"","Sales, 2024","",""',
      '"","","",""',
      '"year","city","sales","note"',
      '"2020","Bern","1",""',
    ),
    refusal:
      'line 1: the header names only 1 of 4 columns, but rows have values in the unnamed ones; start the file with a row of column names',
  },
  {
    title: 'a title row after a line that declares the delimiter',
    text: `\ufeff${joinCrlf('sep=\t', 'Report, March\t', 'day\tn', '1\t2')}`,
    refusal:
      'line 2: the header names only 1 of 2 columns, but rows have values in the unnamed ones; start the file with a row of column names',
  },
  {
    title: 'a title row with the report date after blank cells',
    text: joinCrlf('Umsatz 2024;;;Stand: 1.2.2025', 'Jahr;Ort;Wert;Notiz', '2020;Bern;1,5;x'),
    refusal:
      'line 1: the header names only 2 of 4 columns, but rows have values in the unnamed ones; start the file with a row of column names',
  },
  {
    title: 'years above pairs of columns',
    text: joinLines(',2023,,2024,', 'city,sales,cost,sales,cost', 'Bern,1,2,3,4'),
    refusal:
      'line 1: the header names only 2 of 5 columns, but rows have values in the unnamed ones; start the file with a row of column names',
  },
  {
    title: 'a blank first row',
    text: joinCrlf(';;', 'Jahr;Ort;Wert', '2020;Bern;1,5'),
    refusal:
      'line 1: the header names only 0 of 3 columns, but rows have values in the unnamed ones; start the file with a row of column names',
  },
  {
    title: 'merged cells above the column names',
    text: joinCrlf('Region;2023;;2024;', ';Umsatz;Kosten;Umsatz;Kosten', 'Bern;1;2;3;4'),
    refusal:
      'line 1: the header names only 3 of 5 columns, but rows have values in the unnamed ones; start the file with a row of column names',
  },
  {
    title: 'two of many columns unnamed',
    text: joinLines('a,b,c,d,,e,', '1,2,3,4,5,6,7'),
    names: ['a', 'b', 'c', 'd', 'Unnamed: 4', 'e', 'Unnamed: 6'],
    rows: [['1', '2', '3', '4', '5', '6', '7']],
  },
  {
    title: 'unnamed extra columns, one of which is filled in a single row',
    text: joinLines('v1,v2,,,', 'ham,a,,,', 'spam,b,,,', 'ham,c,rest of c,,'),
    names: ['v1', 'v2', 'Unnamed: 2'],
    rows: [
      ['ham', 'a', ''],
      ['spam', 'b', ''],
      ['ham', 'c', 'rest of c'],
    ],
  },
  {
    title: 'one of several columns unnamed',
    text: joinLines('id,name,,n', '1,x,note,2', '2,y,,3'),
    names: ['id', 'name', 'Unnamed: 2', 'n'],
    rows: [
      ['1', 'x', 'note', '2'],
      ['2', 'y', '', '3'],
    ],
  },
  {
    title: 'a name for the values only, as pandas writes a series',
    text: joinLines(',n', 'x,1.5', 'y,2.5'),
    names: ['Unnamed: 0', 'n'],
    rows: [
      ['x', '1.5'],
      ['y', '2.5'],
    ],
  },
  {
    title: 'a name for the values only, after two index levels, one of them quoted',
    text: joinLines('"",,n', '"x",u,1', '"y",v,2'),
    names: ['Unnamed: 0', 'Unnamed: 1', 'n'],
    rows: [
      ['x', 'u', '1'],
      ['y', 'v', '2'],
    ],
  },
  {
    title: 'one named column, and no values after it',
    text: joinLines('a;"";;', '"x; y";"";;', ';;;', 'z;;;'),
    names: ['a'],
    rows: [['x; y'], [''], ['z']],
  },
  {
    title: 'semicolons in the only column, and a line that declares another delimiter',
    text: joinLines('sep=,', 'tags', 'x;y', 'z;w'),
    names: ['tags'],
    rows: [['x;y'], ['z;w']],
  },
  {
    title: 'bars in some rows of the only column',
    text: joinLines('text', 'x | y', 'z', 'w'),
    names: ['text'],
    rows: [['x | y'], ['z'], ['w']],
  },
  {
    title: 'text padded with spaces, and a missing number',
    text: joinLines('id;city      ;n', '1 ;Bern      ;12.5', '2 ;Zug       ;NULL'),
    names: ['id', 'city', 'n'],
    rows: [
      ['1', 'Bern', '12.5'],
      ['2', 'Zug', ''],
    ],
  },
  {
    title: 'commas in the text of the only column',
    text: joinLines('text', 'hello, world', 'foo, bar'),
    refusal: 'line 2: 2 fields where the header has 1',
  },
  {
    title: 'rows that end with a delimiter, like the header',
    text: joinLines('a,b,', 'x,y,', 'z,,'),
    names: ['a', 'b'],
    rows: [
      ['x', 'y'],
      ['z', ''],
    ],
  },
  {
    title: 'rows that end with a delimiter, unlike the header',
    text: joinLines('a,b', 'x,y,', 'z,,,', ',w,,,,'),
    names: ['a', 'b'],
    rows: [
      ['x', 'y'],
      ['z', ''],
      ['', 'w'],
    ],
  },
  {
    title: 'some rows that end with a delimiter',
    text: joinCrlf('a;b', 'x;y', 'z;w;;;', '"u;v";"w";'),
    names: ['a', 'b'],
    rows: [
      ['x', 'y'],
      ['z', 'w'],
      ['u;v', 'w'],
    ],
  },
  { title: 'blank lines', text: joinLines('a,b', '', 'x,y', ''), names: ['a', 'b'], rows: [['x', 'y']] },
  // Comment characters are text.
  {
    title: 'rows and cells that begin with #',
    text: joinLines('a,b', '#x,1.5', 'y,#2.5', '# z,#'),
    names: ['a', 'b'],
    rows: [
      ['#x', '1.5'],
      ['y', '#2.5'],
      ['# z', '#'],
    ],
  },
  // Quotes and spaces.
  {
    title: 'quotes, line breaks and delimiters in cells',
    text: joinLines('a,b', '"x\n""y"", ""z""",w', 'u,"v,\n\n,"'),
    names: ['a', 'b'],
    rows: [
      ['x\n"y", "z"', 'w'],
      ['u', 'v,\n\n,'],
    ],
  },
  {
    title: 'spaces after the delimiters',
    text: joinLines('a, b, c', 'x, y, z', 'u, , w'),
    names: ['a', 'b', 'c'],
    rows: [
      ['x', 'y', 'z'],
      ['u', '', 'w'],
    ],
  },
  {
    title: 'spaces before and after quotes',
    text: joinLines('"a" , "b, c"', '"x" , "y, ""z"""', ' "u, v", "w"  ', '1" , 2"'),
    names: ['a', 'b, c'],
    rows: [
      ['x', 'y, "z"'],
      ['u, v', 'w'],
      ['1"', '2"'],
    ],
  },
  {
    title: 'spaces, quotes and a line break in one cell',
    text: joinLines('a; b', 'x; "y\n""; ""z"" " ;', 'u;w'),
    names: ['a', 'b'],
    rows: [
      ['x', 'y\n"; "z"'],
      ['u', 'w'],
    ],
  },
  {
    title: 'inch marks',
    text: joinLines('a,b', '15" pipe,x', 'the 3" one,y"'),
    names: ['a', 'b'],
    rows: [
      ['15" pipe', 'x'],
      ['the 3" one', 'y"'],
    ],
  },
  {
    title: 'inch marks after a quoted line that declares the delimiter',
    text: `\ufeff${joinLines('"sep=;"', 'a";b', '15" pipe;"x\ny"', '3" one;y"', 'z;w')}`,
    names: ['a"', 'b'],
    rows: [
      ['15" pipe', 'x\ny'],
      ['3" one', 'y"'],
      ['z', 'w'],
    ],
  },
  {
    title: 'more columns than DuckDB reads at once, inch marks, and spaces before quotes',
    text: joinLines(
      Array.from({ length: 250 }, (_, i) => `c${i}`).join(','),
      Array.from({ length: 250 }, (_, i) => (i % 2 ? ` "x, ${i}"` : '3" y')).join(','),
    ),
    names: Array.from({ length: 250 }, (_, i) => `c${i}`),
    rows: [Array.from({ length: 250 }, (_, i) => (i % 2 ? `x, ${i}` : '3" y'))],
  },
  {
    title: 'a quote that is never closed',
    text: joinLines('a,b', 'x,"y', 'z,w'),
    refusal: 'line 2: a quote is opened and never closed',
  },
  {
    title: 'text after a closing quote',
    text: joinLines('a,b', 'x,"y"', 'z,"w" v'),
    refusal: 'line 3: text after the closing quote of a field',
  },
  // Line breaks in the header.
  {
    title: 'a line break in an Excel header',
    text: joinCrlf('a;"Menge\n(kg)"', 'x;2,5', 'y;"3,25"'),
    names: ['a', 'Menge\n(kg)'],
    rows: [
      ['x', '2.5'],
      ['y', '3.25'],
    ],
  },
  {
    title: 'a line break in the first name after a byte order mark',
    text: `\ufeff${joinLines('"a\nb";c', 'x;y', 'z;"v\nw"')}`,
    names: ['a\nb', 'c'],
    rows: [
      ['x', 'y'],
      ['z', 'v\nw'],
    ],
  },
]
