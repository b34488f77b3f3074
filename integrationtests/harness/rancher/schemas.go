package rancher

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A shape is what a kind keeps of a field.
type shape = apiextensionsv1.JSONSchemaProps

// schemas are those of the kinds that drop what they do not know: Rancher installs them
// from generated files. All others keep every field (rancher-differences.md, D). Of what
// Fleet does not read a schema here keeps all.
var schemas = map[schema.GroupVersionResource]shape{
	ProvClusters: fieldsOf(map[string]shape{
		"spec": fieldsOf(map[string]shape{
			"agentEnvVars":                        listOf(fieldsOf(map[string]shape{"name": word(), "value": word()})),
			"clusterAgentDeploymentCustomization": agentShape(), "fleetAgentDeploymentCustomization": agentShape(),
			"webhookDeploymentCustomization": fieldsOf(map[string]shape{
				"appendTolerations": listOf(anything()), "overrideAffinity": anything(), "overrideResourceRequirements": anything(),
				"replicaCount": number(), "podDisruptionBudget": budgetShape(),
			}),
			"kubernetesVersion": word(), "localClusterAuthEndpoint": anything(), "clusterAPIConfig": anything(),
			"rkeConfig": fieldsOf(map[string]shape{
				"machineGlobalConfig": anything(), "machinePools": listOf(anything()), "registries": anything(),
				"machineSelectorConfig": listOf(fieldsOf(map[string]shape{"config": anything(), "machineLabelSelector": anything()})),
			}),
		}),
		"status": fieldsOf(map[string]shape{
			"agentDeployed": flag(), "clientSecretName": word(), "clusterName": word(), "fleetWorkspaceName": word(), "ready": flag(),
			"observedGeneration": number(), "conditions": conditionsShape(),
		}),
	}),
	GlobalRoles: fieldsOf(map[string]shape{
		"displayName": word(), "description": word(), "builtin": flag(), "newUserDefault": flag(), "rules": listOf(anything()),
		"inheritedClusterRoles": listOf(word()), "namespacedRules": anything(), "inheritedNamespacedRules": anything(), "status": anything(),
		"inheritedFleetWorkspacePermissions": fieldsOf(map[string]shape{"resourceRules": listOf(anything()), "workspaceVerbs": listOf(word())}),
	}),
	GlobalRoleBindings: fieldsOf(map[string]shape{
		"globalRoleName": word(), "userName": word(), "userPrincipalName": word(), "groupPrincipalName": word(), "status": anything(),
	}),
	ClusterRoleTemplateBindings: fieldsOf(map[string]shape{
		"clusterName": word(), "userName": word(), "userPrincipalName": word(), "groupName": word(), "groupPrincipalName": word(), "roleTemplateName": word(),
		"status": anything(),
	}),
}

// agentShape is how an agent is deployed.
func agentShape() shape {
	return fieldsOf(map[string]shape{
		"appendTolerations": listOf(fieldsOf(map[string]shape{
			"key": word(), "operator": word(), "value": word(), "effect": word(), "tolerationSeconds": number(),
		})),
		"overrideAffinity": anything(), "overrideResourceRequirements": anything(),
		"schedulingCustomization": fieldsOf(map[string]shape{
			"podDisruptionBudget": budgetShape(),
			"priorityClass":       fieldsOf(map[string]shape{"value": number(), "preemptionPolicy": word()}),
		}),
	})
}

func budgetShape() shape {
	return fieldsOf(map[string]shape{"minAvailable": word(), "maxUnavailable": word()})
}

func conditionsShape() shape {
	return listOf(fieldsOf(map[string]shape{
		"type": word(), "status": word(), "reason": word(), "message": word(), "lastTransitionTime": word(), "lastUpdateTime": word(),
	}))
}

// schemaOf is the schema of a kind.
func schemaOf(r schema.GroupVersionResource) *shape {
	s, ok := schemas[r]
	if !ok {
		s = anything()
	}
	return &s
}

func fieldsOf(fields map[string]shape) shape { return shape{Type: "object", Properties: fields} }

func listOf(one shape) shape {
	return shape{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &one}}
}

func anything() shape {
	keep := true
	return shape{Type: "object", XPreserveUnknownFields: &keep}
}

func word() shape { return shape{Type: "string"} }

func flag() shape { return shape{Type: "boolean"} }

func number() shape { return shape{Type: "integer", Format: "int64"} }
