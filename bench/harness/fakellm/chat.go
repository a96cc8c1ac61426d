package main

import (
	"bufio"
	"fmt"
	"strconv"
	"time"
)

func chunk(w *bufio.Writer, data string) {
	fmt.Fprintf(w, "%x\r\n%s\r\n", len(data), data)
}

// chat sends the response; returns false if the client has disconnected.
func chat(w *bufio.Writer, client *watcher, isStream bool, status, n int, gap, delay float64) bool {
	if !client.pause(time.Duration(delay * float64(time.Millisecond))) {
		return false
	}
	if status != 200 {
		w.Write(small(strconv.Itoa(status)+" Fake", "application/json", `{"error":{"message":"fake error","type":"fake"}}`))
		return true
	}
	if !isStream {
		w.Write(syncReply)
		return true
	}
	streams.Add(1)
	w.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n")
	head := `data: {"id":"chatcmpl-fake","object":"chat.completion.chunk","created":1700000000,"model":"` + *model + `","choices":[{"index":0,"delta":`
	chunk(w, head+`{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n")
	if w.Flush() != nil {
		aborted.Add(1)
		return false
	}
	next := time.Now()
	for i := 0; i < n; i++ {
		next = next.Add(time.Duration(gap * float64(time.Millisecond)))
		if !client.pause(time.Until(next)) {
			aborted.Add(1)
			return false
		}
		// each token carries the send time, so a driver on the same host can read one-way delay
		chunk(w, head+`{"content":" t`+strconv.Itoa(i)+`@`+strconv.FormatInt(time.Now().UnixMicro(), 10)+`"},"finish_reason":null}]}`+"\n\n")
		if w.Flush() != nil {
			aborted.Add(1)
			return false
		}
	}
	chunk(w, head+`{},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":`+strconv.Itoa(n)+`,"total_tokens":`+strconv.Itoa(12+n)+`}}`+"\n\n")
	chunk(w, "data: [DONE]\n\n")
	w.WriteString("0\r\n\r\n")
	return true
}
