package answer

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Held is what a member of a group has, as its client tells it from another goroutine.
type Held struct {
	lock        sync.Mutex
	partitions  []int32
	revocations int
}

// Assigned tells what the member got, beside what it has.
func (held *Held) Assigned(partitions []int32) {
	held.lock.Lock()
	defer held.lock.Unlock()
	held.partitions = slices.Concat(held.partitions, partitions)
	slices.Sort(held.partitions)
}

// Revoked tells what the member has no more.
func (held *Held) Revoked(partitions []int32) {
	held.lock.Lock()
	defer held.lock.Unlock()
	if len(partitions) > 0 {
		held.revocations++
	}
	isGone := func(one int32) bool { return slices.Contains(partitions, one) }
	held.partitions = slices.DeleteFunc(slices.Clone(held.partitions), isGone)
}

// Partitions returns what the member has.
func (held *Held) Partitions() []int32 {
	held.lock.Lock()
	defer held.lock.Unlock()
	return held.partitions
}

// Revocations returns how often the member lost what it had.
func (held *Held) Revocations() int {
	held.lock.Lock()
	defer held.lock.Unlock()
	return held.revocations
}

// Open lets a member take part, static if the instance id is not empty. It returns how to close it.
type Open func(asked Asked, instance string, held *Held) (func(), error)

// Share answers group_share (rows.py).
func Share(open Open) Call {
	return func(asked Asked) (any, error) {
		first, second := &Held{}, &Held{}
		leave, err := open(asked, "", first)
		if err != nil {
			return nil, err
		}
		defer leave()
		leaveSecond, err := open(asked, "", second)
		if err != nil {
			return nil, err
		}
		err = haveOneEach(first, second)
		together := [][]int32{first.Partitions(), second.Partitions()}
		leaveSecond()
		if err != nil {
			return nil, err
		}
		slices.SortFunc(together, slices.Compare)
		err = until("the first has both", func() bool { return len(first.Partitions()) == 2 })
		return map[string]any{"together": together, "alone": first.Partitions()}, err
	}
}

// ReturnStatic answers group_static (rows.py).
func ReturnStatic(open Open) Call {
	return func(asked Asked) (any, error) {
		stays, first, again := &Held{}, &Held{}, &Held{}
		leave, err := open(asked, "static-2", stays)
		if err != nil {
			return nil, err
		}
		defer leave()
		leaveFirst, err := open(asked, "static-1", first)
		if err != nil {
			return nil, err
		}
		err = haveOneEach(first, stays)
		before, revocations := first.Partitions(), stays.Revocations()
		leaveFirst()
		if err != nil {
			return nil, err
		}
		leaveAgain, err := open(asked, "static-1", again)
		if err != nil {
			return nil, err
		}
		defer leaveAgain()
		err = until("it has partitions again", func() bool { return len(again.Partitions()) > 0 })
		since := stays.Revocations() - revocations
		return map[string]any{"before": before, "after": again.Partitions(), "revocations": since}, err
	}
}

func haveOneEach(one, other *Held) error {
	return until("each of two members has a partition", func() bool {
		return len(one.Partitions()) == 1 && len(other.Partitions()) == 1
	})
}

func until(what string, isSo func() bool) error {
	for deadline := time.Now().Add(2 * Within); !isSo(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s still not: %s", 2*Within, what)
		}
	}
	return nil
}
