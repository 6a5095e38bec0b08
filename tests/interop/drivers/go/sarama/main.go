// The driver of Sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"springtide/interop/answer"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func main() {
	answer.Serve("github.com/IBM/sarama", map[string]answer.Call{
		"connect": byAdmin(func(admin sarama.ClusterAdmin, _ answer.Asked) (any, error) {
			brokers, _, err := admin.DescribeCluster()
			return len(brokers), err
		}),
		"list_topics": byAdmin(func(admin sarama.ClusterAdmin, _ answer.Asked) (any, error) {
			topics, err := admin.ListTopics()
			names := []string{}
			for name := range topics {
				names = append(names, name)
			}
			return names, err
		}),
		"create": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			size := &sarama.TopicDetail{NumPartitions: asked.Partitions, ReplicationFactor: asked.ReplicationFactor}
			return nil, admin.CreateTopic(asked.Topic, size, false)
		}),
		"delete": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			return nil, admin.DeleteTopic(asked.Topic)
		}),
		"describe_configs": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			which := sarama.ConfigResource{Type: sarama.TopicResource, Name: asked.Topic}
			which.ConfigNames = []string{asked.Setting}
			told, err := admin.DescribeConfig(which)
			if err != nil || len(told) != 1 {
				return nil, err
			}
			return told[0].Value, nil
		}),
		"alter_configs": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			set := sarama.IncrementalAlterConfigsEntry{
				Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &asked.Value,
			}
			changes := map[string]sarama.IncrementalAlterConfigsEntry{asked.Setting: set}
			return nil, admin.IncrementalAlterConfig(sarama.TopicResource, asked.Topic, changes, false)
		}),
		"delete_records": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			return nil, admin.DeleteRecords(asked.Topic, map[int32]int64{0: asked.Offset})
		}),
		"produce":         produce,
		"fetch":           func(asked answer.Asked) (any, error) { return fetch(asked) },
		"fetch_committed": fetchCommitted,
		"transact":        transact,
		"copy":            copyRecords,
		"take_over":       takeOver,
		"offset_by_time":  offsetByTime,
		"group_share":     answer.Share(takePart),
		"group_static":    answer.ReturnStatic(takePart),
		"group_resume": func(asked answer.Asked) (any, error) {
			if _, err := readAndCommit(asked, int(asked.Offset)); err != nil {
				return nil, err
			}
			return readAndCommit(asked, asked.Count-int(asked.Offset))
		},
		"list_groups": byAdmin(func(admin sarama.ClusterAdmin, _ answer.Asked) (any, error) {
			groups, err := admin.ListConsumerGroups()
			return slices.Collect(maps.Keys(groups)), err
		}),
		"describe_group": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			told, err := admin.DescribeConsumerGroups([]string{asked.Group})
			if err != nil {
				return nil, err
			}
			return map[string]any{"state": told[0].State, "members": len(told[0].Members)}, nil
		}),
		"group_offsets": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			told, err := admin.ListConsumerGroupOffsets(asked.Group, map[string][]int32{asked.Topic: {0}})
			if err != nil {
				return nil, err
			}
			return told.GetBlock(asked.Topic, 0).Offset, nil
		}),
		"reset_group": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			to := map[int32]sarama.OffsetAndMetadata{0: {Offset: asked.Offset, LeaderEpoch: -1}}
			all := map[string]map[int32]sarama.OffsetAndMetadata{asked.Topic: to}
			told, err := admin.AlterConsumerGroupOffsets(asked.Group, all, nil)
			if err != nil {
				return nil, err
			}
			if err := told.Errors[asked.Topic][0]; err != sarama.ErrNoError {
				return nil, err
			}
			return nil, nil
		}),
		"delete_group_offsets": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			return nil, admin.DeleteConsumerGroupOffset(asked.Group, asked.Topic, 0)
		}),
		"delete_group": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			return nil, admin.DeleteConsumerGroup(asked.Group)
		}),
		"set_password": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			change := sarama.AlterUserScramCredentialsUpsert{
				Name: asked.User, Mechanism: sarama.SCRAM_MECHANISM_SHA_256, Iterations: asked.Iterations,
				Salt: []byte("interop"), Password: []byte(asked.Password),
			}
			return nil, firstFailure(admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{change}))
		}),
		"describe_user": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			told, err := admin.DescribeUserScramCredentials([]string{asked.User})
			if err != nil {
				return nil, err
			}
			iterations := map[string]int32{}
			for _, one := range told[0].CredentialInfos {
				iterations[one.Mechanism.String()] = one.Iterations
			}
			return iterations, nil
		}),
		"delete_password": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			change := sarama.AlterUserScramCredentialsDelete{Name: asked.User, Mechanism: sarama.SCRAM_MECHANISM_SHA_256}
			return nil, firstFailure(admin.DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{change}))
		}),
		"set_quota": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			who := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityUser, Name: asked.User}}
			return nil, admin.AlterClientQuotas(who, sarama.ClientQuotasOp{Key: asked.Quota, Value: asked.Rate}, false)
		}),
		"describe_quotas": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			who := sarama.QuotaFilterComponent{EntityType: sarama.QuotaEntityUser, Match: asked.User}
			told, err := admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{who}, true)
			if err != nil || len(told) != 1 {
				return nil, err
			}
			return told[0].Values, nil
		}),
		"create_acl": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			topic := sarama.Resource{
				ResourceType: sarama.AclResourceTopic, ResourceName: asked.Topic,
				ResourcePatternType: sarama.AclPatternLiteral,
			}
			may := sarama.Acl{
				Principal: asked.Principal, Host: "*",
				Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow,
			}
			return nil, admin.CreateACL(topic, may)
		}),
		"describe_acls": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			told, err := admin.ListAcls(aclsOf(asked))
			found := [][2]string{}
			for _, resource := range told {
				for _, one := range resource.Acls {
					found = append(found, [2]string{one.Principal, strings.ToUpper(one.Operation.String())})
				}
			}
			return found, err
		}),
		"delete_acl": byAdmin(func(admin sarama.ClusterAdmin, asked answer.Asked) (any, error) {
			_, err := admin.DeleteACL(aclsOf(asked), false)
			return nil, err
		}),
	})
}

// settings returns how the client gets in where the request says so (security.py).
func settings(asked answer.Asked) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	login := asked.Login
	if login == nil {
		return config, nil
	}
	trust, err := login.TLS()
	if err != nil {
		return nil, err
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = true, trust
	sasl := &config.Net.SASL
	sasl.Enable, sasl.Mechanism = login.Mechanism != "", sarama.SASLMechanism(login.Mechanism)
	sasl.User, sasl.Password = login.User, login.Password
	switch login.Mechanism {
	case sarama.SASLTypeSCRAMSHA256:
		sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &proof{hash: scram.SHA256} }
	case sarama.SASLTypeSCRAMSHA512:
		sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &proof{hash: scram.SHA512} }
	case sarama.SASLTypeOAuth:
		sasl.TokenProvider = token(login.Token)
	}
	return config, nil
}

// proof is SCRAM, which Sarama leaves to another library.
type proof struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (one *proof) Begin(user, password, authzID string) error {
	client, err := one.hash.NewClient(user, password, authzID)
	if err == nil {
		one.ClientConversation = client.NewConversation()
	}
	return err
}

type token string

func (one token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(one)}, nil
}

func aclsOf(asked answer.Asked) sarama.AclFilter {
	return sarama.AclFilter{
		ResourceType:              sarama.AclResourceTopic,
		ResourceName:              &asked.Topic,
		ResourcePatternTypeFilter: sarama.AclPatternLiteral,
		Operation:                 sarama.AclOperationAny,
		PermissionType:            sarama.AclPermissionAny,
	}
}

// firstFailure returns the error of the only user that was to be changed.
func firstFailure(told []*sarama.AlterUserScramCredentialsResult, err error) error {
	if err == nil && told[0].ErrorCode != sarama.ErrNoError {
		return told[0].ErrorCode
	}
	return err
}

func byAdmin(call func(sarama.ClusterAdmin, answer.Asked) (any, error)) answer.Call {
	return func(asked answer.Asked) (any, error) {
		config, err := settings(asked)
		if err != nil {
			return nil, err
		}
		admin, err := sarama.NewClusterAdmin(asked.Servers(), config)
		if err != nil {
			return nil, err
		}
		defer admin.Close()
		return call(admin, asked)
	}
}

func produce(asked answer.Asked) (any, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Compression = codecs[asked.Codec]
	config.Producer.Return.Successes = true
	if asked.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(asked.Servers(), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, asked.Count)
	for number := range messages {
		messages[number] = &sarama.ProducerMessage{
			Topic: asked.Topic,
			Key:   sarama.StringEncoder(fmt.Sprintf("k%d", number)),
			Value: sarama.StringEncoder(fmt.Sprintf("value %d", number)),
		}
	}
	err = producer.SendMessages(messages)
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) {
		return nil, failed[0].Err // the whole only counts them
	}
	return nil, err
}

func fetch(asked answer.Asked, changes ...func(*sarama.Config)) (any, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		change(config)
	}
	config.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer(asked.Servers(), config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(asked.Topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	found := [][2]string{}
	late := time.After(answer.Within)
	for len(found) < asked.Count {
		select {
		case message := <-partition.Messages():
			found = append(found, [2]string{string(message.Key), string(message.Value)})
		case err := <-partition.Errors():
			return nil, err
		case <-late:
			return nil, fmt.Errorf("%d records in %s", len(found), answer.Within)
		}
	}
	return found, nil
}

func transactional(asked answer.Asked) (sarama.SyncProducer, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = asked.Group
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Net.MaxOpenRequests = 1
	return sarama.NewSyncProducer(asked.Servers(), config)
}

func write(producer sarama.SyncProducer, asked answer.Asked, word string) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, asked.Count)
	for number := range messages {
		messages[number] = &sarama.ProducerMessage{
			Topic: asked.Topic,
			Key:   sarama.StringEncoder(fmt.Sprintf("k%d", number)),
			Value: sarama.StringEncoder(fmt.Sprintf("%s %d", word, number)),
		}
	}
	return producer.SendMessages(messages)
}

func transact(asked answer.Asked) (any, error) {
	producer, err := transactional(asked)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	if err := write(producer, asked, "lost"); err != nil {
		return nil, err
	}
	if err := producer.AbortTxn(); err != nil {
		return nil, err
	}
	if err := write(producer, asked, "value"); err != nil {
		return nil, err
	}
	return nil, producer.CommitTxn()
}

func copyRecords(asked answer.Asked) (any, error) {
	producer, err := transactional(asked)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return nil, err
	}
	found, err := fetch(asked)
	if err != nil {
		return nil, err
	}
	for _, one := range found.([][2]string) {
		message := &sarama.ProducerMessage{
			Topic: asked.Topic, Partition: 1,
			Key: sarama.StringEncoder(one[0]), Value: sarama.StringEncoder(one[1]),
		}
		if _, _, err := producer.SendMessage(message); err != nil {
			return nil, err
		}
	}
	offset := []*sarama.PartitionOffsetMetadata{{Partition: 0, Offset: int64(asked.Count)}}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{asked.Topic: offset}
	if err := producer.AddOffsetsToTxn(offsets, asked.Group); err != nil {
		return nil, err
	}
	return nil, producer.CommitTxn()
}

func takeOver(asked answer.Asked) (any, error) {
	first, err := transactional(asked)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	if err := write(first, asked, "lost"); err != nil {
		return nil, err
	}
	second, err := transactional(asked)
	if err != nil {
		return nil, err
	}
	defer second.Close()
	if err := write(second, asked, "value"); err != nil {
		return nil, err
	}
	if err := second.CommitTxn(); err != nil {
		return nil, err
	}
	return first.CommitTxn() != nil, nil
}

func fetchCommitted(asked answer.Asked) (any, error) {
	return fetch(asked, func(config *sarama.Config) { config.Consumer.IsolationLevel = sarama.ReadCommitted })
}

func offsetByTime(asked answer.Asked) (any, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	client, err := sarama.NewClient(asked.Servers(), config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.GetOffset(asked.Topic, 0, asked.TimestampMs)
}

func groupSettings(asked answer.Asked) (*sarama.Config, error) {
	config, err := settings(asked)
	if err != nil {
		return nil, err
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	return config, nil
}

// member consumes for a group; read gets each message of each session.
type member struct {
	topic string
	held  *answer.Held
	read  func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage)
}

func (one *member) Setup(session sarama.ConsumerGroupSession) error {
	one.held.Assigned(session.Claims()[one.topic])
	return nil
}

func (one *member) Cleanup(session sarama.ConsumerGroupSession) error {
	one.held.Revoked(session.Claims()[one.topic])
	return nil
}

func (one *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		one.read(session, message)
	}
	return nil
}

func takePart(asked answer.Asked, instance string, held *answer.Held) (func(), error) {
	config, err := groupSettings(asked)
	if err != nil {
		return nil, err
	}
	config.Consumer.Group.InstanceId = instance
	group, err := sarama.NewConsumerGroup(asked.Servers(), asked.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ignore := func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage) {}
		for ctx.Err() == nil {
			_ = group.Consume(ctx, []string{asked.Topic}, &member{asked.Topic, held, ignore})
		}
	}()
	return func() {
		cancel()
		<-ended
		_ = group.Close()
	}, nil
}

func readAndCommit(asked answer.Asked, count int) (any, error) {
	config, err := groupSettings(asked)
	if err != nil {
		return nil, err
	}
	group, err := sarama.NewConsumerGroup(asked.Servers(), asked.Group, config)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answer.Within)
	defer cancel()
	found := [][2]string{}
	read := func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
		if len(found) == count {
			return
		}
		found = append(found, [2]string{string(message.Key), string(message.Value)})
		session.MarkMessage(message, "")
		if len(found) == count {
			session.Commit()
			cancel()
		}
	}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{asked.Topic}, &member{asked.Topic, &answer.Held{}, read}); err != nil {
			return nil, err
		}
	}
	return found, nil
}
