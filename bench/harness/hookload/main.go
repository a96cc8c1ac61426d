// hookload: publishes webhook events to a delivery service at a fixed rate (or flat out) and receives the deliveries
// itself, so accepted/s, delivered/s and end-to-end latency come from one clock. Loopback only, bounded.
// The body template may contain {{ID}} (event id "ev-N") and {{TS}} (send time, unix microseconds); the receiver searches
// for "lab_ts":"<us>" and "lab_id":"ev-N" in each body. -slow-path P answers that path after -slow-ms; -fail-path F with 500.
// -tls-cert and -tls-key make the receiver speak HTTPS; a webhook.endpoint_verification event gets its challenge back.
// -slow-n first publishes that many events to -slow-url, flat out, and does not wait for them: the head-of-line test.
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
	"net/http"
	"net/url"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type hs []string

func (h *hs) String() string     { return "" }
func (h *hs) Set(s string) error { *h = append(*h, s); return nil }

var tsRe = regexp.MustCompile(`lab_ts\\?"\s*:\s*\\?"?(\d+)`)
var challengeRe = regexp.MustCompile(`"verification_challenge":"([\w-]+)"`)
var idRe = regexp.MustCompile(`lab_id\\?"\s*:\s*\\?"(ev-[\w-]+)`)

func main() {
	var hdr hs
	target := flag.String("url", "", "publish URL")
	recv := flag.String("recv", "127.0.0.1:9100", "receiver address")
	tmpl := flag.String("body", "", "body template")
	n := flag.Int("n", 2000, "events, at most 50000")
	rate := flag.Float64("rate", 0, "events/s, 0 = flat out")
	conc := flag.Int("c", 16, "publishers")
	wait := flag.Duration("wait", 20*time.Second, "how long to wait for deliveries after the last publish, at most 60s")
	slowPath := flag.String("slow-path", "/slow", "")
	slowMS := flag.Int("slow-ms", 2000, "")
	failPath := flag.String("fail-path", "/fail", "")
	tlsCert := flag.String("tls-cert", "", "certificate of the receiver")
	tlsKey := flag.String("tls-key", "", "key of the receiver")
	slowURL := flag.String("slow-url", "", "publish URL of events for the slow destination")
	slowN := flag.Int("slow-n", 0, "events for the slow destination, at most 5000")
	perEvent := flag.Int("per-event", 1, "deliveries expected for an event on the paths that are timed")
	flag.Var(&hdr, "H", "header")
	flag.Parse()
	if *n > 50000 {
		*n = 50000
	}
	u, err := url.Parse(*target)
	if err != nil || !net.ParseIP(u.Hostname()).IsLoopback() {
		log.Fatal("loopback only")
	}
	var mu sync.Mutex
	var lat []float64
	seen := map[string]int{}
	var slowHits, failHits, dup atomic.Int64
	var last atomic.Int64
	var sample atomic.Value
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		now := time.Now()
		if m := challengeRe.FindSubmatch(b); m != nil {
			w.Header().Set("Service-Verification-Challenge", string(m[1]))
			fmt.Fprintf(w, `{"verification_challenge":"%s"}`, m[1])
			return
		}
		if strings.HasPrefix(r.URL.Path, *slowPath) {
			slowHits.Add(1)
			time.Sleep(time.Duration(*slowMS) * time.Millisecond)
			w.WriteHeader(200)
			return
		}
		if strings.HasPrefix(r.URL.Path, *failPath) {
			failHits.Add(1)
			w.WriteHeader(500)
			return
		}
		if sample.Load() == nil {
			h := ""
			for k, v := range r.Header {
				h += k + ": " + strings.Join(v, ",") + "; "
			}
			sample.Store(h)
		}
		m, id := tsRe.FindSubmatch(b), idRe.FindSubmatch(b)
		if m != nil && id != nil {
			us, _ := strconv.ParseInt(string(m[1]), 10, 64)
			mu.Lock()
			seen[string(id[1])]++
			if seen[string(id[1])] > *perEvent {
				dup.Add(1)
			} else {
				lat = append(lat, float64(now.UnixMicro()-us)/1000)
			}
			mu.Unlock()
			last.Store(now.UnixMicro())
		}
		w.WriteHeader(200)
	})}
	l, err := net.Listen("tcp", *recv)
	if err != nil {
		log.Fatal(err)
	}
	if *tlsCert != "" {
		go srv.ServeTLS(l, *tlsCert, *tlsKey)
	} else {
		go srv.Serve(l)
	}
	tr := &http.Transport{MaxIdleConnsPerHost: *conc * 2, MaxConnsPerHost: *conc * 2}
	cl := &http.Client{Transport: tr, Timeout: 20 * time.Second}
	// The caller creates destinations whose challenge must be answered first.
	fmt.Println("listening")
	bufio.NewReader(os.Stdin).ReadString('\n')
	if *slowN > 5000 {
		*slowN = 5000
	}
	for k := 0; k < *slowN; k++ {
		resp, err := cl.Post(*slowURL, "application/json", strings.NewReader(*tmpl))
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
	}
	jobs := make(chan int, *n)
	var acc, bad atomic.Int64
	var badBody atomic.Value
	var ackMu sync.Mutex
	var ack []float64
	var wg sync.WaitGroup
	begin := time.Now()
	for i := 0; i < *conc; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := range jobs {
				t := time.Now()
				b := strings.NewReplacer("{{ID}}", fmt.Sprintf("ev-%d-%d", begin.UnixMilli(), k), "{{TS}}", strconv.FormatInt(t.UnixMicro(), 10)).Replace(*tmpl)
				req, _ := http.NewRequest("POST", *target, bytes.NewReader([]byte(b)))
				req.Header.Set("Content-Type", "application/json")
				for _, h := range hdr {
					j := strings.IndexByte(h, ':')
					req.Header.Set(h[:j], strings.TrimSpace(h[j+1:]))
				}
				resp, err := cl.Do(req)
				if err != nil {
					bad.Add(1)
					badBody.Store(err.Error())
					continue
				}
				bb, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode/100 != 2 {
					bad.Add(1)
					badBody.Store(string(bb[:min(len(bb), 200)]))
					continue
				}
				acc.Add(1)
				ackMu.Lock()
				ack = append(ack, float64(time.Since(t).Microseconds())/1000)
				ackMu.Unlock()
			}
		}()
	}
	for k := 0; k < *n; k++ {
		if *rate > 0 {
			if d := time.Until(begin.Add(time.Duration(float64(k) / *rate * float64(time.Second)))); d > 0 {
				time.Sleep(d)
			}
		}
		jobs <- k
	}
	close(jobs)
	wg.Wait()
	pubSecs := time.Since(begin).Seconds()
	if *wait > time.Minute {
		*wait = time.Minute
	}
	for end := time.Now().Add(*wait); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		mu.Lock()
		got := len(lat)
		mu.Unlock()
		if int64(got) >= acc.Load()*int64(*perEvent) {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	p := func(x []float64, q float64) float64 {
		if len(x) == 0 {
			return -1
		}
		sort.Float64s(x)
		return x[min(len(x)-1, int(q*float64(len(x))))]
	}
	total := float64(last.Load()-begin.UnixMicro()) / 1e6
	out := map[string]any{"published": *n, "accepted": acc.Load(), "rejected": bad.Load(), "reject_sample": badBody.Load(), "accept_per_s": acc.Load() * 10 / max(1, int64(pubSecs*10)), "publish_secs": pubSecs,
		"ack_p50_ms": p(ack, .5), "ack_p99_ms": p(ack, .99), "delivered": len(lat), "duplicates": dup.Load(), "deliver_per_s": float64(int(float64(len(lat))/total*10)) / 10, "all_secs": total,
		"e2e_p50_ms": p(lat, .5), "e2e_p99_ms": p(lat, .99), "e2e_max_ms": p(lat, 1), "slow_hits": slowHits.Load(), "fail_hits": failHits.Load(), "headers": sample.Load()}
	json.NewEncoder(os.Stdout).Encode(out)
}
