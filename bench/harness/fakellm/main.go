// fakellm: a fixed, fast stand-in for an OpenAI-compatible model server, for measuring gateways.
// Raw HTTP/1.1 over net.Conn with prebuilt replies; it does no JSON work.
//
//	POST /v1/chat/completions  body without "stream":true -> one fixed JSON answer (about 500 bytes)
//	                           body with    "stream":true -> SSE: role chunk, N token chunks, finish chunk, [DONE]
//	POST /v1/embeddings        one fixed vector
//	GET  /v1/models, /health, / -> fixed small answers
//	GET  /stats -> what SIGUSR1 prints, chats in flight, and the watched requests, as JSON
//
// Query or header overrides per request: X-Fake-Tokens, X-Fake-Gap-Ms, X-Fake-Delay-Ms, X-Fake-Status.
// Gateways often strip such headers, so the flags set the defaults, and the *model name* may carry them
// too: "fake-n50-g10-d0" means 50 tokens, 10 ms gap, 0 ms before the first byte; with "-w17" the request is watched
// under that number: /stats reports when it arrived and when its client disconnected.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
)

var (
	addr    = flag.String("addr", "127.0.0.1:9000", "listen address (loopback only)")
	tokens  = flag.Int("tokens", 50, "SSE token chunks")
	gapMS   = flag.Float64("gap-ms", 10, "ms between SSE chunks")
	delayMS = flag.Float64("delay-ms", 0, "ms before the first byte of any answer")
	size    = flag.Int("size", 500, "approximate bytes of the sync JSON body")
	model   = flag.String("model", "fake", "model name in answers")
	reqs    atomic.Int64
	streams atomic.Int64
	aborted atomic.Int64
	conns   atomic.Int64
	// unanswered chats
	inFlight atomic.Int64
)

var syncReply []byte

func buildSync() {
	mk := func(content string) []byte {
		b, _ := json.Marshal(map[string]any{
			"id": "chatcmpl-fake0000000000000000", "object": "chat.completion", "created": 1700000000, "model": *model,
			"choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": content}, "finish_reason": "stop"}},
			"usage":   map[string]any{"prompt_tokens": 12, "completion_tokens": 64, "total_tokens": 76}})
		return b
	}
	pad := *size - len(mk(""))
	if pad < 1 {
		pad = 1
	}
	text := bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog. "), pad/45+1)[:pad]
	body := mk(string(text))
	syncReply = []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
}

// one vector of 384 numbers
var embeddings []byte

func buildEmbeddings() {
	numbers := make([]float64, 384)
	for i := range numbers {
		numbers[i] = float64(i%97)/97 - 0.5
	}
	body, _ := json.Marshal(map[string]any{
		"object": "list", "model": *model, "data": []any{map[string]any{"object": "embedding", "index": 0, "embedding": numbers}},
		"usage": map[string]any{"prompt_tokens": 9, "total_tokens": 9}})
	embeddings = small("200 OK", "application/json", string(body))
}

func small(status, ctype, body string) []byte {
	return []byte(fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, ctype, len(body), body))
}

var streamKey = []byte(`"stream"`)

// wantsStream looks for "stream": true without parsing the JSON.
func wantsStream(b []byte) bool {
	for {
		i := bytes.Index(b, streamKey)
		if i < 0 {
			return false
		}
		b = bytes.TrimLeft(b[i+len(streamKey):], " \t\r\n:")
		if bytes.HasPrefix(b, []byte("true")) {
			return true
		}
	}
}

// fromModel reads -nX -gY -dZ -wI parts of a model name "fake-n50-g10-d0".
func fromModel(b []byte, n *int, gap, delay *float64, watchID *int) {
	i := bytes.Index(b, []byte("fake-n"))
	if i < 0 {
		return
	}
	s := b[i+5:]
	if j := bytes.IndexByte(s, '"'); j >= 0 {
		s = s[:j]
	}
	for _, p := range bytes.Split(s, []byte("-")) {
		if len(p) < 2 {
			continue
		}
		v, err := strconv.ParseFloat(string(p[1:]), 64)
		if err != nil {
			continue
		}
		switch p[0] {
		case 'n':
			*n = int(v)
		case 'g':
			*gap = v
		case 'd':
			*delay = v
		case 'w':
			*watchID = int(v)
		}
	}
}

func serve(c net.Conn) {
	conns.Add(1)
	defer conns.Add(-1)
	defer c.Close()
	r := bufio.NewReaderSize(c, 16<<10)
	w := bufio.NewWriterSize(c, 16<<10)
	body := make([]byte, 0, 4096)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		isGet := bytes.HasPrefix(line, []byte("GET "))
		isModels := isGet && bytes.Contains(line, []byte("/models"))
		isEmbeddings := bytes.Contains(line, []byte("/embeddings"))
		isStats := isGet && bytes.Contains(line, []byte("/stats"))
		n, length, chunked, closeIt := *tokens, 0, false, false
		gap, delay := *gapMS, *delayMS
		status := 200
		for {
			h, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			h = bytes.TrimRight(h, "\r\n")
			if len(h) == 0 {
				break
			}
			k := bytes.IndexByte(h, ':')
			if k < 0 {
				continue
			}
			key, val := h[:k], bytes.TrimSpace(h[k+1:])
			switch {
			case len(key) == 14 && bytes.EqualFold(key, []byte("content-length")):
				length, _ = strconv.Atoi(string(val))
			case len(key) == 17 && bytes.EqualFold(key, []byte("transfer-encoding")):
				chunked = bytes.EqualFold(val, []byte("chunked"))
			case len(key) == 10 && bytes.EqualFold(key, []byte("connection")):
				closeIt = bytes.EqualFold(val, []byte("close"))
			case len(key) == 6 && bytes.EqualFold(key, []byte("expect")):
				w.WriteString("HTTP/1.1 100 Continue\r\n\r\n")
				w.Flush()
			case len(key) > 7 && bytes.EqualFold(key[:7], []byte("x-fake-")):
				f, _ := strconv.ParseFloat(string(val), 64)
				switch string(bytes.ToLower(key[7:])) {
				case "tokens":
					n = int(f)
				case "gap-ms":
					gap = f
				case "delay-ms":
					delay = f
				case "status":
					status = int(f)
				}
			}
		}
		body = body[:0]
		if chunked {
			for {
				l, err := r.ReadSlice('\n')
				if err != nil {
					return
				}
				sz, err := strconv.ParseInt(string(bytes.TrimSpace(l)), 16, 32)
				if err != nil {
					return
				}
				at := len(body)
				body = append(body, make([]byte, sz)...)
				if _, err := io.ReadFull(r, body[at:]); err != nil {
					return
				}
				if _, err := r.ReadSlice('\n'); err != nil {
					return
				}
				if sz == 0 {
					break
				}
			}
		} else if length > 0 {
			if cap(body) < length {
				body = make([]byte, 0, length)
			}
			body = body[:length]
			if _, err := io.ReadFull(r, body); err != nil {
				return
			}
		}
		reqs.Add(1)
		switch {
		case isStats:
			w.Write(small("200 OK", "application/json", string(stats())))
		case isModels:
			w.Write(small("200 OK", "application/json", `{"object":"list","data":[{"id":"`+*model+`","object":"model","created":1700000000,"owned_by":"fake"}]}`))
		case isEmbeddings:
			w.Write(embeddings)
		case isGet:
			w.Write(small("200 OK", "application/json", `{"status":"ok","model_path":"`+*model+`","max_total_num_tokens":4096}`))
		default:
			id := 0
			fromModel(body, &n, &gap, &delay, &id)
			client := watch(id, r)
			inFlight.Add(1)
			ok := chat(w, client, wantsStream(body), status, n, gap, delay)
			inFlight.Add(-1)
			if !ok || client != nil && (w.Flush() != nil || !client.next()) {
				return
			}
		}
		if r.Buffered() == 0 { // answer pipelined requests in one write
			if w.Flush() != nil {
				return
			}
		}
		if closeIt {
			w.Flush()
			return
		}
	}
}

func main() {
	flag.Parse()
	buildSync()
	buildEmbeddings()
	host, _, err := net.SplitHostPort(*addr)
	if err != nil || !net.ParseIP(host).IsLoopback() {
		log.Fatal("fakellm listens on loopback only")
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	// the line that a node waits for before it sends requests
	fmt.Printf("{\"event\":\"ready\",\"port\":%d}\n", l.Addr().(*net.TCPAddr).Port)
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	go func() {
		for s := range sig {
			fmt.Fprintf(os.Stderr, "requests=%d streams=%d aborted_streams=%d open_conns=%d\n", reqs.Load(), streams.Load(), aborted.Load(), conns.Load())
			if s != syscall.SIGUSR1 {
				os.Exit(0)
			}
		}
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			continue
		}
		go serve(c) // Go sets TCP_NODELAY on every TCP connection
	}
}
