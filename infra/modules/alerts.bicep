// Alerts: executions that need a person, work that is late, triggers that fail, and requests that Cosmos DB turns away.
// They look at fields, never at sentences. A log line that matters has the field `notice` (engine/driving/notices.py). The
// Functions host passes on only text, so the engine writes such lines to stderr as JSON. With OpenTelemetry the fields are
// in customDimensions. A test makes the engine write each of these lines, and runs the queries on them.

@description('The prefix of the alerts\' names.')
param prefix string

@description('The region.')
param location string

@description('Tags of every resource.')
param tags object

@description('The address that gets a mail. Empty: none.')
param email string

@description('The Application Insights component that the app logs to.')
param insightsId string

@description('The Cosmos DB account.')
param cosmosId string

@description('Seconds that a due execution may be overdue.')
param maxOverdueSeconds int = 120

@description('Failed invocations of the feed, the sweep or the queue in 15 minutes.')
param maxFailedTriggers int = 5

@description('Requests turned away with 429 in 5 minutes.')
param maxThrottled int = 100

var lookFor = [
  {
    name: 'quarantined'
    text: 'Executions that killed their drivers again and again. Find out what they do, then resume them.'
    severity: 1
    minutes: 5
    threshold: 0
    query: '''
traces
| extend fields = iff(isempty(tostring(customDimensions.notice)), parse_json(message), customDimensions)
| where fields.notice == 'suspended' and fields.cause == 'Quarantined'
'''
  }
  {
    name: 'suspended-by-fault'
    text: 'Executions that this deployment can\'t carry on with. Deploy the cure, then resume them.'
    severity: 2
    minutes: 5
    threshold: 0
    query: '''
traces
| extend fields = iff(isempty(tostring(customDimensions.notice)), parse_json(message), customDimensions)
| where fields.notice == 'suspended' and fields.cause != 'Quarantined'
'''
  }
  {
    name: 'overdue'
    text: 'The execution that has been due for longest waits for too long: there is more to do than is done.'
    severity: 2
    minutes: 5
    threshold: 0
    query: '''
traces
| extend fields = iff(isempty(tostring(customDimensions.notice)), parse_json(message), customDimensions)
| where fields.notice == 'overdue' and toreal(fields.overdue_seconds) > MAX_OVERDUE
'''
  }
  {
    name: 'left-alone'
    text: 'Executions of a workflow, version or schema that this deployment doesn\'t have, or that can\'t be read at all. Deploy the version that can.'
    severity: 2
    minutes: 15
    threshold: 0
    query: '''
traces
| extend fields = iff(isempty(tostring(customDimensions.notice)), parse_json(message), customDimensions)
| where fields.notice == 'left_alone'
'''
  }
  {
    name: 'blocked'
    text: 'Code that blocks the event loop: no heartbeat is sent meanwhile, leases lapse, steps run again. The message names it.'
    severity: 3
    minutes: 15
    threshold: 0
    query: '''
traces
| extend fields = iff(isempty(tostring(customDimensions.notice)), parse_json(message), customDimensions)
| where fields.notice == 'blocked'
'''
  }
  {
    name: 'failed-triggers'
    text: 'The feed, the sweep or the queue fails: the store can\'t be reached, or there is a bug in the engine.'
    severity: 1
    minutes: 15
    threshold: maxFailedTriggers
    query: '''
requests
| where name in ('drive_changes', 'sweep', 'drive_one') and success == false
'''
  }
  {
    name: 'poison'
    text: 'A hint failed five times and went to the queue hints-poison: the store could not be reached, or there is a bug in the engine. The sweep finds its execution.'
    severity: 2
    minutes: 15
    threshold: 0
    query: '''
traces
| extend fields = iff(isempty(tostring(customDimensions.notice)), parse_json(message), customDimensions)
| where fields.notice == 'poisoned'
'''
  }
  {
    name: 'no-sweep'
    text: 'No sweep has succeeded for 15 minutes: due timers and expired leases wait.'
    severity: 1
    minutes: 15
    threshold: 0
    query: '''
requests
| where name == 'sweep' and success == true
| summarize sweeps = count()
| where sweeps == 0
'''
  }
]

resource people 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: '${prefix}-people'
  location: 'global'
  tags: tags
  properties: {
    groupShortName: 'workflows'
    enabled: true
    emailReceivers: empty(email)
      ? []
      : [
          {
            name: 'on-call'
            emailAddress: email
            useCommonAlertSchema: true
          }
        ]
  }
}

resource queries 'Microsoft.Insights/scheduledQueryRules@2022-06-15' = [
  for alert in lookFor: {
    name: '${prefix}-${alert.name}'
    location: location
    tags: tags
    kind: 'LogAlert'
    properties: {
      displayName: '${prefix}: ${alert.name}'
      description: alert.text
      severity: alert.severity
      enabled: true
      scopes: [
        insightsId
      ]
      evaluationFrequency: 'PT5M'
      windowSize: 'PT${alert.minutes}M'
      autoMitigate: true
      criteria: {
        allOf: [
          {
            query: replace(alert.query, 'MAX_OVERDUE', string(maxOverdueSeconds))
            timeAggregation: 'Count'
            operator: 'GreaterThan'
            threshold: alert.threshold
            failingPeriods: {
              numberOfEvaluationPeriods: 1
              minFailingPeriodsToAlert: 1
            }
          }
        ]
      }
      actions: {
        actionGroups: [
          people.id
        ]
      }
    }
  }
]

resource throttling 'Microsoft.Insights/metricAlerts@2018-03-01' = {
  name: '${prefix}-throttled'
  location: 'global'
  tags: tags
  properties: {
    description: 'Cosmos DB turns requests away: more throughput is asked for than there is.'
    severity: 2
    enabled: true
    scopes: [
      cosmosId
    ]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT5M'
    autoMitigate: true
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          name: 'throttled'
          criterionType: 'StaticThresholdCriterion'
          metricNamespace: 'Microsoft.DocumentDB/databaseAccounts'
          metricName: 'TotalRequests'
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: maxThrottled
          dimensions: [
            {
              name: 'StatusCode'
              operator: 'Include'
              values: [
                '429'
              ]
            }
          ]
        }
      ]
    }
    actions: [
      {
        actionGroupId: people.id
      }
    ]
  }
}
