// The driver of franz-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"springtide/interop/answer"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func main() {
	answer.Serve("github.com/twmb/franz-go", map[string]answer.Call{
		"connect": byAdmin(func(ctx context.Context, admin *kadm.Client, _ answer.Asked) (any, error) {
			brokers, err := admin.ListBrokers(ctx)
			return len(brokers), err
		}),
		"list_topics": byAdmin(func(ctx context.Context, admin *kadm.Client, _ answer.Asked) (any, error) {
			topics, err := admin.ListTopics(ctx)
			return topics.Names(), err
		}),
		"create": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			told, err := admin.CreateTopic(ctx, asked.Partitions, asked.ReplicationFactor, nil, asked.Topic)
			if err == nil {
				err = told.Err
			}
			return nil, err
		}),
		"delete": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			told, err := admin.DeleteTopic(ctx, asked.Topic)
			if err == nil {
				err = told.Err
			}
			return nil, err
		}),
		"describe_configs": byAdmin(describeConfigs),
		"alter_configs": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			change := kadm.AlterConfig{Op: kadm.SetConfig, Name: asked.Setting, Value: &asked.Value}
			told, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, asked.Topic)
			if err == nil {
				err = told[0].Err
			}
			return nil, err
		}),
		"delete_records": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			before := kadm.Offsets{}
			before.AddOffset(asked.Topic, 0, asked.Offset, -1)
			told, err := admin.DeleteRecords(ctx, before)
			if err == nil {
				err = told.Error()
			}
			return nil, err
		}),
		"offset_by_time": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			told, err := admin.ListOffsetsAfterMilli(ctx, asked.TimestampMs, asked.Topic)
			if err == nil {
				err = told.Error()
			}
			found, _ := told.Lookup(asked.Topic, 0)
			return found.Offset, err
		}),
		"produce":              produce,
		"fetch":                func(asked answer.Asked) (any, error) { return fetch(asked) },
		"fetch_committed":      fetchCommitted,
		"transact":             transact,
		"copy":                 copyRecords,
		"take_over":            takeOver,
		"list_transactions":    byAdmin(listTransactions),
		"describe_transaction": byAdmin(describeTransaction),
		"group_share":          answer.Share(takePart),
		"group_static":         answer.ReturnStatic(takePart),
		"group_resume":         resume,
		"consumer_share":       answer.Share(takePart),
		"consumer_resume":      resume,
		// Not consumer_static: the heartbeat by which 1.22 leaves for a while lacks the instance id, so that brokers
		// refuse it, and a member that comes back waits until the session is over.
		"list_groups": byAdmin(func(ctx context.Context, admin *kadm.Client, _ answer.Asked) (any, error) {
			groups, err := admin.ListGroups(ctx)
			return groups.Groups(), err
		}),
		"describe_group": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			groups, err := admin.DescribeGroups(ctx, asked.Group)
			if err == nil {
				err = groups.Error()
			}
			told := groups[asked.Group]
			return map[string]any{"state": told.State, "members": len(told.Members)}, err
		}),
		"group_offsets": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			offsets, err := admin.FetchOffsets(ctx, asked.Group)
			found, _ := offsets.Lookup(asked.Topic, 0)
			return found.At, err
		}),
		"reset_group": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			to := kadm.Offsets{}
			to.AddOffset(asked.Topic, 0, asked.Offset, -1)
			return nil, admin.CommitAllOffsets(ctx, asked.Group, to)
		}),
		"delete_group_offsets": byAdmin(deleteGroupOffsets),
		"delete_group": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			told, err := admin.DeleteGroup(ctx, asked.Group)
			if err == nil {
				err = told.Err
			}
			return nil, err
		}),
		"set_password": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			change := kadm.UpsertSCRAM{
				User: asked.User, Mechanism: kadm.ScramSha256, Iterations: asked.Iterations, Password: asked.Password,
			}
			told, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{change})
			return nil, errors.Join(err, told.Error())
		}),
		"describe_user": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			told, err := admin.DescribeUserSCRAMs(ctx, asked.User)
			iterations := map[string]int32{}
			for _, one := range told[asked.User].CredInfos {
				iterations[one.Mechanism.String()] = one.Iterations
			}
			return iterations, errors.Join(err, told.Error())
		}),
		"delete_password": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			change := kadm.DeleteSCRAM{User: asked.User, Mechanism: kadm.ScramSha256}
			told, err := admin.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{change}, nil)
			return nil, errors.Join(err, told.Error())
		}),
		"set_quota": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			change := kadm.AlterClientQuotaEntry{
				Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &asked.User}},
				Ops:    []kadm.AlterClientQuotaOp{{Key: asked.Quota, Value: asked.Rate}},
			}
			told, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{change})
			if err == nil {
				err = told[0].Err
			}
			return nil, err
		}),
		"describe_quotas": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			who := kadm.DescribeClientQuotaComponent{Type: "user", MatchName: &asked.User}
			told, err := admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{who})
			rates := map[string]float64{}
			for _, entity := range told {
				for _, one := range entity.Values {
					rates[one.Key] = one.Value
				}
			}
			return rates, err
		}),
		"create_acl": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			may := kadm.NewACLs().Topics(asked.Topic).Allow(asked.Principal).Operations(kadm.OpRead)
			told, err := admin.CreateACLs(ctx, may)
			if err == nil {
				err = told[0].Err
			}
			return nil, err
		}),
		"describe_acls": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			told, err := admin.DescribeACLs(ctx, aclsOf(asked))
			found := [][2]string{}
			for _, filter := range told {
				err = errors.Join(err, filter.Err)
				for _, one := range filter.Described {
					found = append(found, [2]string{one.Principal, one.Operation.String()})
				}
			}
			return found, err
		}),
		"delete_acl": byAdmin(func(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
			told, err := admin.DeleteACLs(ctx, aclsOf(asked))
			for _, filter := range told {
				err = errors.Join(err, filter.Err)
			}
			return nil, err
		}),
	})
}

func aclsOf(asked answer.Asked) *kadm.ACLBuilder {
	return kadm.NewACLs().Topics(asked.Topic).Allow().AllowHosts().Operations(kadm.OpAny)
}

// open returns a client that gets in as the request says.
func open(asked answer.Asked, options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options, kgo.SeedBrokers(asked.Servers()...))
	login := asked.Login
	if login == nil {
		return kgo.NewClient(options...)
	}
	config, err := login.TLS()
	if err != nil {
		return nil, err
	}
	options = append(options, kgo.DialTLSConfig(config))
	switch login.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: login.User, Pass: login.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: login.User, Pass: login.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: login.User, Pass: login.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: login.Token}.AsMechanism()))
	}
	return kgo.NewClient(options...)
}

func byAdmin(call func(context.Context, *kadm.Client, answer.Asked) (any, error)) answer.Call {
	return func(asked answer.Asked) (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), answer.Within)
		defer cancel()
		client, err := open(asked)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return call(ctx, kadm.NewClient(client), asked)
	}
}

func describeConfigs(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
	told, err := admin.DescribeTopicConfigs(ctx, asked.Topic)
	if err != nil {
		return nil, err
	}
	for _, setting := range told[0].Configs {
		if setting.Key == asked.Setting {
			return setting.MaybeValue(), told[0].Err
		}
	}
	return nil, told[0].Err
}

func produce(asked answer.Asked) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answer.Within)
	defer cancel()
	options := []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(codecs[asked.Codec]),
	}
	if !asked.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := open(asked, options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, asked.Count)
	for number := range records {
		records[number] = &kgo.Record{
			Topic: asked.Topic,
			Key:   fmt.Appendf(nil, "k%d", number),
			Value: fmt.Appendf(nil, "value %d", number),
		}
	}
	return nil, client.ProduceSync(ctx, records...).FirstErr()
}

func fetchCommitted(asked answer.Asked) (any, error) {
	return fetch(asked, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
}

func fetch(asked answer.Asked, options ...kgo.Opt) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answer.Within)
	defer cancel()
	from := map[string]map[int32]kgo.Offset{asked.Topic: {0: kgo.NewOffset().AtStart()}}
	client, err := open(asked, append(options, kgo.ConsumePartitions(from))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := [][2]string{}
	for len(found) < asked.Count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			found = append(found, [2]string{string(record.Key), string(record.Value)})
		})
	}
	return found, nil
}

// transactional returns a client that has taken its transactional id over.
func transactional(ctx context.Context, asked answer.Asked, options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options,
		kgo.TransactionalID(asked.Group),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	client, err := open(asked, options...)
	if err != nil {
		return nil, err
	}
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

func write(ctx context.Context, client *kgo.Client, asked answer.Asked, word string) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	records := make([]*kgo.Record, asked.Count)
	for number := range records {
		records[number] = &kgo.Record{
			Topic: asked.Topic,
			Key:   fmt.Appendf(nil, "k%d", number),
			Value: fmt.Appendf(nil, "%s %d", word, number),
		}
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

func transact(asked answer.Asked) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answer.Within)
	defer cancel()
	client, err := transactional(ctx, asked)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := write(ctx, client, asked, "lost"); err != nil {
		return nil, err
	}
	if err := client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return nil, err
	}
	if err := write(ctx, client, asked, "value"); err != nil {
		return nil, err
	}
	return nil, client.EndTransaction(ctx, kgo.TryCommit)
}

func copyRecords(asked answer.Asked) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answer.Within)
	defer cancel()
	options := append(groupOptions(asked),
		kgo.TransactionalID(asked.Group),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SeedBrokers(asked.Servers()...),
	)
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	for copied := 0; copied < asked.Count; {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		if err := session.Begin(); err != nil {
			return nil, err
		}
		for _, record := range fetches.Records() {
			of := &kgo.Record{Topic: asked.Topic, Partition: 1, Key: record.Key, Value: record.Value}
			if record.Partition == 0 {
				session.Produce(ctx, of, nil)
				copied++
			}
		}
		if committed, err := session.End(ctx, kgo.TryCommit); err != nil || !committed {
			return nil, errors.Join(err, fmt.Errorf("committed: %t", committed))
		}
	}
	return nil, nil
}

func takeOver(asked answer.Asked) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answer.Within)
	defer cancel()
	first, err := transactional(ctx, asked)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	if err := write(ctx, first, asked, "lost"); err != nil {
		return nil, err
	}
	second, err := transactional(ctx, asked)
	if err != nil {
		return nil, err
	}
	defer second.Close()
	if err := write(ctx, second, asked, "value"); err != nil {
		return nil, err
	}
	if err := second.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return nil, err
	}
	return first.EndTransaction(ctx, kgo.TryCommit) != nil, nil
}

func listTransactions(ctx context.Context, admin *kadm.Client, _ answer.Asked) (any, error) {
	told, err := admin.ListTransactions(ctx, nil, nil)
	return told.TransactionalIDs(), err
}

func describeTransaction(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
	told, err := admin.DescribeTransactions(ctx, asked.Group)
	if err != nil {
		return nil, err
	}
	one, err := told.On(asked.Group, nil)
	partitions := []int32{}
	one.Topics.Each(func(_ string, partition int32) { partitions = append(partitions, partition) })
	return map[string]any{"state": one.State, "partitions": partitions}, errors.Join(err, one.Err)
}

func deleteGroupOffsets(ctx context.Context, admin *kadm.Client, asked answer.Asked) (any, error) {
	which := kadm.TopicsSet{}
	which.Add(asked.Topic, 0)
	told, err := admin.DeleteOffsets(ctx, asked.Group, which)
	if err == nil {
		err = told.Error()
	}
	return nil, err
}

func groupOptions(asked answer.Asked) []kgo.Opt {
	options := []kgo.Opt{
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.DisableAutoCommit(),
	}
	if strings.HasPrefix(asked.Call, "consumer_") {
		options = append(options, kgo.ServerSideBalancer())
	}
	return options
}

func takePart(asked answer.Asked, instance string, held *answer.Held) (func(), error) {
	lost := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { held.Revoked(gone[asked.Topic]) }
	options := append(groupOptions(asked),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			held.Assigned(given[asked.Topic])
		}),
		kgo.OnPartitionsRevoked(lost),
		kgo.OnPartitionsLost(lost),
	)
	if instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	client, err := open(asked, options...)
	if err != nil {
		return nil, err
	}
	go func() {
		for !client.PollFetches(context.Background()).IsClientClosed() {
		}
	}()
	return client.Close, nil
}

func resume(asked answer.Asked) (any, error) {
	if _, err := readAndCommit(asked, int(asked.Offset)); err != nil {
		return nil, err
	}
	return readAndCommit(asked, asked.Count-int(asked.Offset))
}

func readAndCommit(asked answer.Asked, count int) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answer.Within)
	defer cancel()
	client, err := open(asked, groupOptions(asked)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := [][2]string{}
	for len(found) < count {
		fetches := client.PollRecords(ctx, count-len(found))
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, record := range fetches.Records() {
			found = append(found, [2]string{string(record.Key), string(record.Value)})
		}
		if err := client.CommitRecords(ctx, fetches.Records()...); err != nil {
			return nil, err
		}
	}
	return found, nil
}
